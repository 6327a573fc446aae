use schemas::PerDevice;
use serde::Serialize;
use utoipa::ToSchema;

/// A number for each class of device.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ByClass<T> {
    pub(crate) pc: T,
    pub(crate) mobile: T,
}

impl<T> From<PerDevice<T>> for ByClass<T> {
    fn from(PerDevice { pc, mobile }: PerDevice<T>) -> Self {
        Self { pc, mobile }
    }
}
