impl Service {
    async fn transfer(self: Arc<Self>, from: u64) -> Result<impl Reply, Failure> {
        let name = "transfer";
        let keys = app::locks::__private::Keys::all([
            app::locks::__private::core::convert::Into::<
                app::locks::__private::LockKey,
            >::into(app::locks::__private::format!("account:{from}")),
            app::locks::__private::core::convert::Into::<
                app::locks::__private::LockKey,
            >::into(ACCOUNT),
        ]);
        let mut guard = app::locks::__private::Guard::new(name, keys)
            .ttl(self.ttl)
            .wait_forever()
            .hold_at_least(app::locks::__private::Duration::from_millis(90000u64))
            .manager(&self.locks);
        let outcome = {
            let body = app::locks::__private::core::pin::pin!(
                async move { if let
                app::locks::__private::core::option::Option::Some(value) =
                app::locks::__private::core::option::Option::None:: < Result < _, Failure
                > > { return value; } let _ = & from; let _ = & self; { self.run(from).
                await } }
            );
            let outcome = guard.run(body).await;
            outcome
        };
        guard.finish().await;
        match outcome {
            app::locks::__private::core::result::Result::Ok(value) => value,
            app::locks::__private::core::result::Result::Err(error) => {
                app::locks::__private::busy_or::<
                    Result<_, Failure>,
                >(name, error, |busy| Err(busy.into()))
            }
        }
    }
}
