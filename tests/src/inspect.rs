//! What a server holds and what it was asked. Blocking, on a connection of its own that never passes a proxy.

use crate::server::{ANSWER_TIME, RedisServer};
use redis::{Client, Cmd, Connection, FromRedisValue, InfoDict, RedisResult};
use std::collections::BTreeMap;
use std::sync::PoisonError;

impl RedisServer {
    /// Sends a command and returns its answer, or the error of the server or of the connection.
    ///
    /// # Errors
    /// When the server refuses the command, is down, or does not answer within two seconds.
    pub fn try_command<T: FromRedisValue>(&self, words: &[&str]) -> RedisResult<T> {
        let mut place = self
            .questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Taken out, and put back only after an answer: the answer to an abandoned question must not be taken for
        // the next one's.
        let mut connection = match place.take() {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let mut command = Cmd::new();
        command.arg(words);
        let answer = command.query(&mut connection);
        let answered = answer
            .as_ref()
            .map_or_else(|error| error.code().is_some(), |_| true);
        if answered {
            *place = Some(connection);
        }
        answer
    }

    /// [`Self::try_command`] for what cannot fail in this test.
    #[track_caller]
    pub fn command<T: FromRedisValue>(&self, words: &[&str]) -> T {
        self.try_command(words)
            .unwrap_or_else(|error| panic!("{}: {}: {error}", self.name(), words.join(" ")))
    }

    /// The names of the keys that match a glob pattern, sorted.
    #[track_caller]
    pub fn keys(&self, pattern: &str) -> Vec<String> {
        let mut keys: Vec<String> = self.command(&["KEYS", pattern]);
        keys.sort();
        keys
    }

    /// The value of a string key.
    #[track_caller]
    pub fn get(&self, key: &str) -> Option<String> {
        self.command(&["GET", key])
    }

    /// Milliseconds to live as Redis answers them: -1 without an expiry, -2 without a key.
    #[track_caller]
    pub fn pttl(&self, key: &str) -> i64 {
        self.command(&["PTTL", key])
    }

    /// Whether there is such a key.
    #[track_caller]
    pub fn exists(&self, key: &str) -> bool {
        self.command(&["EXISTS", key])
    }

    /// How often each command was called, by its lower-case name; subcommands as `client|setinfo`.
    ///
    /// What the harness asks is in there too (`keys`, `get`, `pttl`, `info`, `ping`).
    #[track_caller]
    pub fn command_stats(&self) -> BTreeMap<String, u64> {
        let info: String = self.command(&["INFO", "commandstats"]);
        info.lines().filter_map(calls).collect()
    }

    /// The errors that were answered, as `INFO errorstats` lists them.
    #[track_caller]
    pub fn errors(&self) -> String {
        self.command(&["INFO", "errorstats"])
    }

    /// Sets the counts of [`Self::command_stats`] to zero.
    #[track_caller]
    pub fn reset_command_stats(&self) {
        self.command::<()>(&["CONFIG", "RESETSTAT"]);
    }

    /// A setting.
    #[track_caller]
    pub fn config(&self, name: &str) -> String {
        let mut found: BTreeMap<String, String> = self.command(&["CONFIG", "GET", name]);
        found
            .remove(name)
            .unwrap_or_else(|| panic!("{} has no setting {name}", self.name()))
    }

    /// Changes a setting of the running server.
    #[track_caller]
    pub fn set_config(&self, name: &str, value: &str) {
        self.command::<()>(&["CONFIG", "SET", name, value]);
    }

    /// How many clients are connected, the harness's own connection left out.
    #[track_caller]
    pub fn clients(&self) -> usize {
        let list: String = self.command(&["CLIENT", "LIST"]);
        list.lines().count() - 1
    }

    /// Writes the data to disk now, for a restart that keeps it.
    #[track_caller]
    pub fn save(&self) {
        self.command::<()>(&["SAVE"]);
    }

    /// Deletes everything.
    #[track_caller]
    pub fn flush(&self) {
        self.command::<()>(&["FLUSHALL"]);
    }

    /// The next question makes a new connection, for a server whose process is another one now.
    pub(crate) fn forget_connection(&self) {
        *self
            .questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// The id of the process that answers on the port once it has loaded its data.
    pub(crate) fn ask_process_id(&self) -> RedisResult<u32> {
        self.try_command::<()>(&["PING"])?;
        let info: InfoDict = self.try_command(&["INFO", "server"])?;
        Ok(info.get("process_id").unwrap_or_default())
    }

    fn connect(&self) -> RedisResult<Connection> {
        let client = Client::open(self.questions_url())?;
        let connection = client.get_connection_with_timeout(ANSWER_TIME)?;
        connection.set_read_timeout(Some(ANSWER_TIME))?;
        connection.set_write_timeout(Some(ANSWER_TIME))?;
        Ok(connection)
    }
}

/// `cmdstat_set:calls=3,usec=…` → `("set", 3)`.
fn calls(line: &str) -> Option<(String, u64)> {
    let (name, figures) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
    let count = figures.split(',').next()?.parse().ok()?;
    Some((name.to_owned(), count))
}
