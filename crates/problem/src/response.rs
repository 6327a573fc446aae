//! A problem as an HTTP response, and the answers to requests that no route takes.

use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};

use crate::Problem;

/// The media type of every problem.
pub const PROBLEM_JSON: &str = "application/problem+json";

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let body = serde_json::to_vec(&self).expect("a problem is strings and numbers only");
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_JSON));
        if let Some(seconds) = self.retry_after_s {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

/// For [`axum::Router::fallback`]: 404 naming the path.
pub async fn fallback(uri: Uri) -> Problem {
    Problem::not_found(uri.path())
}

/// For [`axum::Router::method_not_allowed_fallback`]: 405 naming the method.
pub async fn method_not_allowed(method: Method) -> Problem {
    Problem::method_not_allowed(method)
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::{Body, to_bytes};
    use axum::extract::Request;
    use axum::routing::{get, post};
    use serde::Deserialize;
    use tower::ServiceExt as _;

    use super::*;
    use crate::{Path, ProblemKind, Query};

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Page {
        limit: Option<u8>,
        #[serde(default)]
        after: Vec<String>,
    }

    #[derive(Deserialize)]
    #[serde(try_from = "String")]
    struct Topic;

    impl TryFrom<String> for Topic {
        type Error = String;

        fn try_from(name: String) -> Result<Self, String> {
            match name.as_str() {
                "chat.events" => Ok(Self),
                _ => Err(format!("is {name}; must be chat.events")),
            }
        }
    }

    fn router() -> Router {
        Router::new()
            .route("/topics/{topic}", get(async |Path(Topic): Path<Topic>| ()))
            .route(
                "/users/{uid}",
                get(async |Path(uid): Path<u32>| uid.to_string()),
            )
            .route(
                "/page",
                get(async |Query(page): Query<Page>| format!("{:?} {:?}", page.limit, page.after)),
            )
            .route("/echo", post(async || ()))
            .fallback(fallback)
            .method_not_allowed_fallback(method_not_allowed)
    }

    async fn ask(request: Request) -> Response {
        router().oneshot(request).await.unwrap()
    }

    async fn problem_of(response: Response) -> Problem {
        assert_eq!(response.headers()[header::CONTENT_TYPE], PROBLEM_JSON);
        let status = response.status();
        let body = to_bytes(response.into_body(), 64 * 1024).await.unwrap();
        let problem: Problem = serde_json::from_slice(&body).unwrap();
        assert_eq!(problem.status, status.as_u16());
        problem
    }

    async fn get_problem(path: &str) -> Problem {
        let request = Request::get(path).body(Body::empty()).unwrap();
        problem_of(ask(request).await).await
    }

    #[tokio::test]
    async fn no_matching_route_is_a_problem_too() {
        let problem = get_problem("/nowhere").await;
        assert_eq!(problem.kind, ProblemKind::NotFound);
        assert_eq!(problem.detail, "/nowhere was not found");

        let response = ask(Request::get("/echo").body(Body::empty()).unwrap()).await;
        assert_eq!(response.headers()[header::ALLOW], "POST");
        assert_eq!(
            problem_of(response).await.kind,
            ProblemKind::MethodNotAllowed
        );
    }

    #[tokio::test]
    async fn a_bad_path_parameter_is_named() {
        let problem = get_problem("/users/x1").await;
        assert_eq!(problem.errors[0].field, "uid");
        assert_eq!(
            problem.errors[0].message,
            "is \"x1\"; must be a whole number, 0 or more, in range"
        );
    }

    #[tokio::test]
    async fn a_path_parameter_of_our_own_type_keeps_its_words() {
        let problem = get_problem("/topics/none").await;
        assert_eq!(problem.errors[0].field, "topic");
        assert_eq!(problem.errors[0].message, "is none; must be chat.events");
    }

    #[tokio::test]
    async fn a_bad_query_parameter_is_named() {
        let problem = get_problem("/page?limit=many").await;
        assert_eq!(problem.errors[0].field, "limit");
        let problem = get_problem("/page?limits=1").await;
        assert_eq!(problem.errors[0].field, "limits");
        assert!(problem.detail.contains("`limit`"), "{}", problem.detail);
        let problem = get_problem("/page?limit=1&limit=2").await;
        assert_eq!(problem.errors[0].field, "limit");
        let message = &problem.errors[0].message;
        assert_eq!(message, "is there more than once; must be there once");
    }

    #[tokio::test]
    async fn a_query_parameter_may_be_repeated() {
        let request = Request::get("/page?after=1:2&after=3:4").body(Body::empty());
        let response = ask(request.unwrap()).await;
        let body = to_bytes(response.into_body(), 1024).await.unwrap();
        assert_eq!(body, r#"None ["1:2", "3:4"]"#);
    }

    #[tokio::test]
    async fn retry_after_is_a_member_and_a_header() {
        let response = Problem::too_many_requests(3).into_response();
        assert_eq!(response.headers()[header::RETRY_AFTER], "3");
        assert_eq!(problem_of(response).await.retry_after_s, Some(3));
    }
}
