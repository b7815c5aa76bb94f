impl Service {
    async fn transfer(self: Arc<Self>, from: u64) -> Result<impl Reply, Failure> {
        let __lock_name = "transfer";
        let __lock_keys = app::locks::__private::Keys::all([
            app::locks::__private::IntoKey::into_key(
                app::locks::__private::format!("account:{from}"),
            ),
            app::locks::__private::IntoKey::into_key(ACCOUNT),
        ]);
        let mut __lock_guard = app::locks::__private::Guard::new(
                __lock_name,
                __lock_keys,
            )
            .ttl(self.ttl)
            .wait_forever()
            .hold_at_least(app::locks::__private::Duration::from_millis(90000u64))
            .manager(&self.locks);
        let __lock_outcome = {
            let __lock_body = app::locks::__private::pin!(
                async move { if let app::locks::__private::Some(__lock_value) =
                app::locks::__private::None:: < Result < _, Failure > > { return
                __lock_value; } let _ = & from; let _ = & self; { self.run(from). await }
                }
            );
            __lock_guard.run(__lock_body).await
        };
        __lock_guard.finish().await;
        return match __lock_outcome {
            app::locks::__private::Ok(__lock_value) => __lock_value,
            app::locks::__private::Err(__lock_error) => {
                <Result<
                    _,
                    Failure,
                > as app::locks::fallback::FromOutage>::busy_or(
                    __lock_name,
                    __lock_error,
                    |busy| Err(busy.into()),
                )
            }
        };
    }
}
