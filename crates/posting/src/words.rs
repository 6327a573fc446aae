//! The filter of words: texts of messages and edits are checked before they go on the log.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use metrics::{Counter, Gauge};
use parking_lot::RwLock;
use problem::Problem;
use schemas::WordVerdict;
use service_runtime::{ConfigError, Shutdown, ValueError};
use tokio::time::interval;
use word_filter::{Checked, WordFilter};

use crate::{config::IngestConfig, post::Post};

const CHECKED: &str = "tidemark_ingest_texts_with_words_total";
const CURRENT: &str = "tidemark_ingest_word_dictionary_current";
const WORDS: &str = "tidemark_ingest_word_dictionary_words";

/// How often the dictionary is looked at again.
const RELOAD_INTERVAL: Duration = Duration::from_secs(2);

/// The dictionary in use.
pub struct Words {
    path: PathBuf,
    current: RwLock<Arc<WordFilter>>,
    flagged: Counter,
    masked: Counter,
    refused: Counter,
    /// 1 if the file is the one in use.
    is_current: Gauge,
    words: Gauge,
}

impl Words {
    /// Reads the dictionary for the first time. Returns also its text, for [`watch`].
    ///
    /// # Errors
    /// The file cannot be read, or is not a dictionary.
    pub fn open(path: &Path) -> Result<(Self, String), ConfigError> {
        metrics::describe_counter! { CHECKED, "Texts with words of the dictionary, by what was done" }
        metrics::describe_gauge! { CURRENT, "1 where the dictionary in use is that of the file, 0 where the file cannot be read" }
        metrics::describe_gauge! { WORDS, "Words of the dictionary in use" }
        let (filter, text) = read_filter(path)?;
        let words = Self {
            path: path.to_owned(),
            words: metrics::gauge!(WORDS),
            is_current: metrics::gauge!(CURRENT),
            flagged: metrics::counter!(CHECKED, "done" => "flagged"),
            masked: metrics::counter!(CHECKED, "done" => "masked"),
            refused: metrics::counter!(CHECKED, "done" => "refused"),
            current: RwLock::new(Arc::new(filter)),
        };
        words.show();
        Ok((words, text))
    }

    /// Checks the text of a post, masks it if words are to be masked, and sets what was done.
    ///
    /// # Errors
    /// A problem that names the field and none of the words.
    pub fn apply(&self, post: &mut Post) -> Result<(), Problem> {
        let Some(text) = post.text_mut() else {
            return Ok(());
        };
        let filter = self.get();
        let masked = match filter.check(text) {
            Checked::Clean => return Ok(()),
            Checked::Refused => {
                self.refused.increment(1);
                let wrong = "has words that are not accepted";
                return Err(Problem::unprocessable_field(
                    "msg",
                    wrong,
                    "a text without them",
                ));
            }
            Checked::Flagged => {
                self.flagged.increment(1);
                false
            }
            Checked::Masked(masked) => {
                self.masked.increment(1);
                *text = masked;
                true
            }
        };
        post.words = Some(WordVerdict {
            masked,
            dictionary: filter.version(),
        });
        Ok(())
    }

    fn get(&self) -> Arc<WordFilter> {
        Arc::clone(&self.current.read())
    }

    fn show(&self) {
        let filter = self.get();
        self.is_current.set(1.0);
        self.words.set(filter.words() as f64);
        let version = format!("{:016x}", filter.version());
        tracing::info!(
            words = filter.words(),
            version,
            "the dictionary of words is in use"
        );
    }

    /// Reads the file again, and keeps the dictionary in use if that fails.
    fn take(&self, text: Result<&str, &String>) {
        let filter = text.map_err(String::clone).and_then(filter);
        match filter {
            Ok(filter) => {
                *self.current.write() = Arc::new(filter);
                self.show();
            }
            Err(problem) => {
                self.is_current.set(0.0);
                let file = self.path.display();
                tracing::warn!(%file, problem, "the dictionary of words could not be read: the one before stays in use");
            }
        }
    }
}

/// Checks what `config` names for the filter of words, as ingest does when it starts.
///
/// # Errors
/// The dictionary cannot be read, or is not one.
pub fn check_dictionary(config: &IngestConfig) -> Result<(), ConfigError> {
    let dictionary = config.word_dictionary.as_deref();
    dictionary.map_or(Ok(()), |path| read_filter(path).map(drop))
}

/// The dictionary in a file, and its text.
///
/// # Errors
/// The file cannot be read, or is not a dictionary.
pub fn read_filter(path: &Path) -> Result<(WordFilter, String), ConfigError> {
    let filter = read(path).and_then(|text| Ok((filter(&text)?, text)));
    filter.map_err(|problem| {
        ConfigError::Values(vec![ValueError {
            origin: "section ingest".to_owned(),
            key: "ingest.word_dictionary".to_owned(),
            problem: format!("names {}, which is refused: {problem}", path.display()),
        }])
    })
}

/// Reads the file again when it is no longer `text`, until shutdown. A change is noticed by the content: mounts, links and copies do not keep times.
pub async fn watch(words: Arc<Words>, text: String, shutdown: Shutdown) -> anyhow::Result<()> {
    let mut ticks = interval(RELOAD_INTERVAL);
    let mut seen = Ok(text);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = shutdown.soft().cancelled() => return Ok(()),
        }
        let of_task = Arc::clone(&words);
        seen = tokio::task::spawn_blocking(move || {
            let found = read(&of_task.path);
            if found != seen {
                of_task.take(found.as_deref());
            }
            found
        })
        .await?;
    }
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path)
        .map_err(|error| format!("cannot be read ({error}); must be a readable file of text"))
}

fn filter(text: &str) -> Result<WordFilter, String> {
    WordFilter::parse(text).map_err(|invalid| invalid.to_string())
}
