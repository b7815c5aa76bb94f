//! A recorder that remembers everything, for this process.

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};

/// A metric's name and its labels, sorted.
pub(crate) type Series = (String, Vec<(String, String)>);

static ALL: Mutex<BTreeMap<Series, Value>> = Mutex::new(BTreeMap::new());
static DESCRIBED: Mutex<BTreeMap<String, Described>> = Mutex::new(BTreeMap::new());

#[derive(Clone)]
enum Value {
    Counter(Arc<AtomicU64>),
    Gauge(Arc<AtomicU64>),
    Histogram(Arc<Samples>),
}

/// What the recorder was told of a metric.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Described {
    pub(crate) kind: &'static str,
    pub(crate) unit: Option<Unit>,
}

#[derive(Default)]
pub(crate) struct Samples(Mutex<Vec<f64>>);

impl HistogramFn for Samples {
    fn record(&self, value: f64) {
        lock(&self.0).push(value);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on everything is remembered.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| metrics::set_global_recorder(Measured).expect("there is no other"));
}

struct Measured;

impl Measured {
    fn series(key: &Key, new: impl FnOnce() -> Value) -> Value {
        let labels = key.labels();
        let mut labels: Vec<_> = labels
            .map(|label| (label.key().to_owned(), label.value().to_owned()))
            .collect();
        labels.sort();
        let mut all = lock(&ALL);
        let series = all.entry((key.name().to_owned(), labels));
        series.or_insert_with(new).clone()
    }

    fn describe(name: &KeyName, kind: &'static str, unit: Option<Unit>, words: &SharedString) {
        assert!(!words.is_empty(), "{name:?} is not described");
        let described = Described { kind, unit };
        lock(&DESCRIBED).insert(name.as_str().to_owned(), described);
    }
}

impl Recorder for Measured {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, words: SharedString) {
        Self::describe(&name, "counter", unit, &words);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, words: SharedString) {
        Self::describe(&name, "gauge", unit, &words);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, words: SharedString) {
        Self::describe(&name, "histogram", unit, &words);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        match Self::series(key, || Value::Counter(Arc::default())) {
            Value::Counter(counter) => Counter::from_arc(counter),
            _ => panic!("{key} is no counter"),
        }
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        match Self::series(key, || Value::Gauge(Arc::default())) {
            Value::Gauge(gauge) => Gauge::from_arc(gauge),
            _ => panic!("{key} is no gauge"),
        }
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        match Self::series(key, || Value::Histogram(Arc::default())) {
            Value::Histogram(samples) => Histogram::from_arc(samples),
            _ => panic!("{key} is no histogram"),
        }
    }
}

/// Both are what `AtomicU64` is to the facade.
const _: fn(&AtomicU64) = |atomic| {
    fn takes(_: &(impl CounterFn + GaugeFn)) {}
    takes(atomic);
};

fn find(metric: &str, labels: &[(&str, &str)]) -> Option<Value> {
    let mut labels: Vec<_> = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    labels.sort();
    lock(&ALL).get(&(metric.to_owned(), labels)).cloned()
}

/// What a counter has counted; `None`: there is none.
pub(crate) fn counter(metric: &str, labels: &[(&str, &str)]) -> Option<u64> {
    match find(metric, labels)? {
        Value::Counter(count) => Some(count.load(Ordering::SeqCst)),
        _ => panic!("{metric} is no counter"),
    }
}

pub(crate) fn gauge(metric: &str, labels: &[(&str, &str)]) -> Option<f64> {
    match find(metric, labels)? {
        Value::Gauge(bits) => Some(f64::from_bits(bits.load(Ordering::SeqCst))),
        _ => panic!("{metric} is no gauge"),
    }
}

pub(crate) fn samples(metric: &str, labels: &[(&str, &str)]) -> Vec<f64> {
    match find(metric, labels) {
        Some(Value::Histogram(samples)) => lock(&samples.0).clone(),
        Some(_) => panic!("{metric} is no histogram"),
        None => Vec::new(),
    }
}

/// All that something has happened to: counters above zero, gauges, histograms with samples.
pub(crate) fn used() -> Vec<Series> {
    let all = lock(&ALL);
    let used = all.iter().filter(|(_, value)| match value {
        Value::Counter(count) => count.load(Ordering::SeqCst) > 0,
        Value::Gauge(_) => true,
        Value::Histogram(samples) => !lock(&samples.0).is_empty(),
    });
    used.map(|(series, _)| series.clone()).collect()
}

/// All series there are.
pub(crate) fn all() -> Vec<Series> {
    lock(&ALL).keys().cloned().collect()
}

pub(crate) fn described() -> BTreeMap<String, Described> {
    lock(&DESCRIBED).clone()
}
