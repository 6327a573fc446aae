/// One line or item of the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// Its number, from 1; of a line its physical one.
    pub(crate) number: u32,
    pub(crate) content: Result<&'a [u8], FrameError>,
}

/// Why a frame has no content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FrameError {
    /// It is longer than the limit, and was skipped.
    TooLong,
    /// The body ended in the middle of it.
    Truncated,
    /// Its length cannot be read, so nothing after it can either.
    NoLength,
}
