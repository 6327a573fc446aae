//! What `docs/SECURITY.md` tells operators to do.

const PAGE: &str = include_str!("../../../../docs/SECURITY.md");

/// The lines of the code block of that language, of which there is one.
pub fn block(language: &str) -> Vec<&'static str> {
    let begin = format!("```{language}\n");
    let (_, rest) = PAGE.split_once(&begin).expect("the page has the block");
    assert!(!rest.contains(&begin), "the page has one such block");
    let (block, _) = rest.split_once("```").expect("the block ends");
    block.lines().collect()
}
