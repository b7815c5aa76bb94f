//! A subscriber that remembers everything that is written of locks, down to a level.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// What fields say.
pub(crate) type Fields = BTreeMap<&'static str, String>;

#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) name: &'static str,
    pub(crate) level: Level,
    pub(crate) target: &'static str,
    pub(crate) fields: Fields,
    /// Those that it may have.
    pub(crate) declared: Vec<&'static str>,
    pub(crate) is_closed: bool,
    handles: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) level: Level,
    pub(crate) target: &'static str,
    /// With `message`.
    pub(crate) fields: Fields,
    /// The spans around it, by their numbers, the innermost last.
    pub(crate) inside: Vec<usize>,
}

impl Said {
    pub(crate) fn message(&self) -> &str {
        self.fields.get("message").map_or("", String::as_str)
    }
}

#[derive(Debug, Default)]
struct Pages {
    spans: Vec<Span>,
    events: Vec<Said>,
}

/// See the [module](self). All clones are one.
#[derive(Clone, Debug)]
pub(crate) struct Journal {
    pages: Arc<Mutex<Pages>>,
    down_to: Level,
}

thread_local! {
    static ENTERED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

impl Journal {
    pub(crate) fn down_to(level: Level) -> Self {
        Self {
            pages: Arc::default(),
            down_to: level,
        }
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        self.pages().spans.clone()
    }

    pub(crate) fn events(&self) -> Vec<Said> {
        self.pages().events.clone()
    }

    /// The spans of guarded calls of this name.
    pub(crate) fn calls(&self, name: &str) -> Vec<Span> {
        let is_of = |span: &Span| {
            span.name == "distributed_lock"
                && span.fields.get("name").is_some_and(|value| value == name)
        };
        self.spans().into_iter().filter(is_of).collect()
    }

    pub(crate) fn has(&self, message: &str) -> bool {
        self.pages()
            .events
            .iter()
            .any(|event| event.message() == message)
    }

    fn pages(&self) -> MutexGuard<'_, Pages> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_span<T>(&self, id: &Id, act: impl FnOnce(&mut Span) -> T) -> T {
        let index = usize::try_from(id.into_u64() - 1).expect("an index");
        act(&mut self.pages().spans[index])
    }
}

impl Subscriber for Journal {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        let is_ours = target.starts_with("lock_runtime") || target.starts_with("telemetry");
        is_ours && *metadata.level() <= self.down_to
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let metadata = attributes.metadata();
        let mut fields = Fields::new();
        attributes.record(&mut Reader(&mut fields));
        let mut pages = self.pages();
        pages.spans.push(Span {
            name: metadata.name(),
            level: *metadata.level(),
            target: metadata.target(),
            fields,
            declared: metadata.fields().iter().map(|field| field.name()).collect(),
            is_closed: false,
            handles: 1,
        });
        Id::from_u64(pages.spans.len() as u64)
    }

    fn record(&self, id: &Id, record: &Record<'_>) {
        self.with_span(id, |span| record.record(&mut Reader(&mut span.fields)));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::new();
        event.record(&mut Reader(&mut fields));
        let inside = ENTERED.with_borrow(Vec::clone);
        let inside = inside
            .iter()
            .map(|id| usize::try_from(id - 1).expect("an index"));
        let said = Said {
            level: *event.metadata().level(),
            target: event.metadata().target(),
            fields,
            inside: inside.collect(),
        };
        self.pages().events.push(said);
    }

    fn enter(&self, id: &Id) {
        ENTERED.with_borrow_mut(|ids| ids.push(id.into_u64()));
    }

    fn exit(&self, id: &Id) {
        ENTERED.with_borrow_mut(|ids| {
            let last = ids.pop();
            assert_eq!(last, Some(id.into_u64()), "entered and left in order");
        });
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.with_span(id, |span| span.handles += 1);
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        self.with_span(&id, |span| {
            span.handles -= 1;
            span.is_closed = span.handles == 0;
            span.is_closed
        })
    }
}

struct Reader<'a>(&'a mut Fields);

impl Visit for Reader<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}
