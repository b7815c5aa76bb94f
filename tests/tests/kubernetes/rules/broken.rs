//! Each rule finds what it is for: the manifests, with one thing changed.

use super::{RULES, Rendered};
use serde_json::Value;
use std::collections::BTreeSet;

/// Under a rule the changes to production that break it and no other: the object, the place in it (`POD` is that of its pods), and
/// what is put there; `-` takes away what is there.
const CHANGES: &str = r#"
every client names every node
    StatefulSet/lock-redis /spec/replicas 3
    Deployment/cron POD/containers/0/env/1/value "redis://shop:$(LOCK_PASSWORD)@lock-redis-0.lock-redis:6379"
names resolve
    Service/lock-redis /spec/publishNotReadyAddresses -
    Service/lock-redis /spec/clusterIP -
    Service/lock-redis /spec/selector {"app.kubernetes.io/name": "redis"}
    StatefulSet/lock-redis /spec/serviceName "redis"
variables are set before they are used
    Deployment/payments POD/containers/0/env/0/name "PASSWORD"
    Deployment/cron POD/containers/0/env/0/name "PASSWORD"
the next node waits for the vote of this one
    StatefulSet/lock-redis /spec/minReadySeconds 60
    StatefulSet/lock-redis POD/containers/0/readinessProbe/initialDelaySeconds 60
    StatefulSet/lock-redis /spec/podManagementPolicy -
    StatefulSet/lock-redis /spec/updateStrategy/rollingUpdate {"maxUnavailable": 2}
    StatefulSet/lock-redis /spec/updateStrategy/type "OnDelete"
nodes do not share a machine
    StatefulSet/lock-redis POD/affinity -
    StatefulSet/lock-redis POD/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0/topologyKey "zone"
    StatefulSet/lock-redis POD/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0/labelSelector {}
    StatefulSet/lock-redis POD/topologySpreadConstraints -
    StatefulSet/lock-redis POD/topologySpreadConstraints/0/whenUnsatisfiable "ScheduleAnyway"
data and a copy fit into memory
    StatefulSet/lock-redis POD/containers/0/command/3 "97mb"
    StatefulSet/lock-redis POD/containers/0/command ["redis-server", "/etc/lock-redis/redis.conf"]
    StatefulSet/lock-redis POD/containers/0/resources/limits/memory "512Mi"
    ConfigMap/lock-redis /data/redis.conf "appendonly yes\nappendfsync everysec\ndir /data\nmaxmemory-policy allkeys-lru\n"
what a node knows is on a disk
    ConfigMap/lock-redis /data/redis.conf "appendonly no\nappendfsync everysec\ndir /data\nmaxmemory-policy noeviction\n"
    StatefulSet/lock-redis /spec/persistentVolumeClaimRetentionPolicy/whenScaled "Delete"
    StatefulSet/lock-redis /spec/persistentVolumeClaimRetentionPolicy -
a node that loads is left alone
    StatefulSet/lock-redis POD/containers/0/startupProbe/failureThreshold 5
    StatefulSet/lock-redis POD/containers/0/startupProbe -
    StatefulSet/lock-redis POD/containers/0/livenessProbe/exec/command/2 "ready"
    StatefulSet/lock-redis POD/containers/0/livenessProbe/failureThreshold 1
    StatefulSet/lock-redis POD/containers/0/readinessProbe/exec/command/2 "alive"
one at a time is taken away
    PodDisruptionBudget/lock-redis /spec/maxUnavailable 2
    PodDisruptionBudget/lock-redis /spec/selector/matchLabels {"app.kubernetes.io/name": "redis"}
    PodDisruptionBudget/payments /spec/selector -
only clients get to the nodes
    NetworkPolicy/lock-redis /spec/ingress/0/from [{"podSelector": {}}]
    NetworkPolicy/lock-redis /spec/ingress/0/from -
    NetworkPolicy/lock-redis /spec/ingress/0/ports -
    NetworkPolicy/lock-redis /spec/ingress/1/from/0 {"namespaceSelector": {}}
    NetworkPolicy/lock-redis /spec/egress -
    NetworkPolicy/lock-redis /spec/podSelector/matchLabels {"app.kubernetes.io/name": "redis"}
    Deployment/payments /spec/template/metadata/labels/lock-redis-client -
nobody is killed who is about to end
    Deployment/payments POD/terminationGracePeriodSeconds 28
    Deployment/payments POD/terminationGracePeriodSeconds -
    Deployment/payments POD/containers/0/lifecycle -
    Deployment/cron POD/terminationGracePeriodSeconds 25
services live without nodes
    Deployment/payments POD/containers/0/livenessProbe/httpGet/path "/ready"
    Deployment/payments POD/containers/0/readinessProbe -
    Deployment/payments POD/containers/0/command/2 "127.0.0.1:8080"
    Service/payments /spec/selector {"app.kubernetes.io/name": "shop"}
    Deployment/cron POD/containers/0/livenessProbe {"exec": {"command": ["true"]}}
nothing may do more than it must
    StatefulSet/lock-redis POD/containers/0/securityContext/readOnlyRootFilesystem false
    StatefulSet/lock-redis POD/containers/1/securityContext/capabilities -
    StatefulSet/lock-redis POD/initContainers/0/securityContext -
    StatefulSet/lock-redis POD/automountServiceAccountToken -
    Deployment/cron POD/securityContext/runAsNonRoot -
    Deployment/cron POD/securityContext/seccompProfile -
    Deployment/payments POD/containers/0/resources/limits/cpu -
versions are pinned
    StatefulSet/lock-redis POD/containers/0/image "redis:latest"
    StatefulSet/lock-redis POD/containers/1/image "oliver006/redis_exporter"
    Deployment/cron POD/containers/0/image "registry.example.com:5000/lock-examples"
no password is written down
    Deployment/payments POD/containers/0/env/0 {"name": "LOCK_PASSWORD", "value": "correct-horse-battery"}
    Deployment/payments POD/containers/0/env/3 {"name": "LOCK_HOLDER", "value": "redis://shop:correct-horse@there"}
the user is the README's
    ConfigMap/lock-redis /data/users.sh "user default off\nuser shop on $passwords ~* &* +@all\n"
Prometheus finds its ports
    StatefulSet/lock-redis /spec/template/metadata/annotations/prometheus.io~1port "9122"
    Deployment/payments /spec/template/metadata/annotations -
what is mounted is there
    StatefulSet/lock-redis POD/volumes/1/name "secrets"
    StatefulSet/lock-redis POD/volumes/0/configMap/name "lock-redis"
"#;

#[test]
fn every_rule_finds_what_is_broken_and_only_that() {
    let sound = Rendered::of("overlays/production");
    let (mut rule, mut found) = ("", BTreeSet::new());
    for line in CHANGES.lines().skip(1) {
        let Some(change) = line.strip_prefix("    ") else {
            rule = line;
            continue;
        };
        let mut broken = sound.clone();
        make(change, &mut broken);
        let complaining = RULES.iter().filter(|(_, rule)| !rule(&broken).is_empty());
        let complaining: Vec<&str> = complaining.map(|(name, _)| *name).collect();
        assert_eq!(complaining, [rule], "{change}");
        found.insert(rule);
    }
    let all: BTreeSet<&str> = RULES.iter().map(|(name, _)| *name).collect();
    assert_eq!(found, all, "every rule was broken");
}

/// Puts a value where a line says, or takes away what is there.
fn make(change: &str, rendered: &mut Rendered) {
    let mut words = change.splitn(3, ' ');
    let mut next = || words.next().expect("an object, a place and a value");
    let (object, place, value) = (next(), next(), next());
    let (kind, name) = object.split_once('/').expect("a kind and a name");
    let place = place.replace("POD", "/spec/template/spec");
    let (parent, last) = place.rsplit_once('/').expect("a pointer");
    let last = last.replace("~1", "/");
    let parent = rendered.get_mut(kind, name).pointer_mut(parent);
    let parent = parent.unwrap_or_else(|| panic!("there is no such place: {change}"));
    let value = (value != "-").then(|| serde_json::from_str(value).expect(change));
    let before = match (parent, value) {
        (Value::Array(items), Some(value)) => {
            let place: usize = last.parse().expect("a number");
            Some(std::mem::replace(&mut items[place], value))
        }
        (Value::Object(fields), Some(value)) => {
            // What is not there yet is only added.
            Some(fields.insert(last, value).unwrap_or_default())
        }
        (Value::Object(fields), None) => fields.remove(&last),
        (other, _) => panic!("{change} is in {other}"),
    };
    assert!(before.is_some(), "there is nothing there: {change}");
}
