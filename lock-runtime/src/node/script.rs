//! The scripts that run on a server.

use std::sync::{LazyLock, OnceLock};

use redis::{Cmd, Value};

use super::connections::Via;
use super::{Limit, NodeError};

/// A script, called by its hash, and by its text where the server does not know the hash.
pub(super) struct Script {
    pub(super) source: &'static str,
    hash: LazyLock<String>,
}

impl Script {
    pub(super) fn hash(&self) -> &str {
        &self.hash
    }

    /// Calls it. A second call is only made if `still` agrees, as it comes behind what was sent since the first.
    pub(super) async fn call(
        &self,
        link: &Via,
        limit: &Limit,
        first: &OnceLock<Cmd>,
        with: impl Fn(&str, &str) -> Cmd,
        still: impl Fn() -> bool,
    ) -> Result<Value, NodeError> {
        let by_hash = first.get_or_init(|| with("EVALSHA", self.hash()));
        match link.send(by_hash, limit).await {
            Err(error) if error.is_noscript() && still() => {
                link.send(&with("EVAL", self.source), limit).await
            }
            answer => answer,
        }
    }
}

macro_rules! script {
    ($name:ident, $file:literal) => {
        pub(super) static $name: Script = Script {
            source: include_str!(concat!("scripts/", $file)),
            hash: LazyLock::new(|| redis::Script::new($name.source).get_hash().to_owned()),
        };
    };
}

script!(ACQUIRE, "acquire.lua");
script!(ACQUIRE_FENCED, "acquire_fenced.lua");
script!(EXTEND, "extend.lua");
script!(NOTHING, "nothing.lua");
script!(RAISE, "raise.lua");
script!(RELEASE, "release.lua");
script!(RELEASE_ALOUD, "release_aloud.lua");
script!(RELEASE_HEARD, "release_heard.lua");
script!(SEIZE, "seize.lua");
