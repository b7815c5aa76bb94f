impl Service {
    async fn write(&self, id: u64) -> Result<u64, Failure> {
        let __lock_name = ::lock_runtime::__private::concat!(
            ::lock_runtime::__private::module_path!(), "::", "write"
        );
        let __lock_keys = ::lock_runtime::__private::Keys::one(
            ::lock_runtime::__private::IntoKey::into_key(id),
        );
        let mut __lock_guard = ::lock_runtime::__private::Guard::new(
                __lock_name,
                __lock_keys,
            )
            .ttl(::lock_runtime::__private::Duration::from_millis(8000u64))
            .continue_when_lost()
            .extend(self.extends())
            .max_hold(::lock_runtime::__private::Duration::from_millis(3600000u64))
            .fenced(true);
        let __lock_outcome = {
            let __lock_body = ::lock_runtime::__private::pin!(
                async move { if let ::lock_runtime::__private::Some(__lock_value) =
                ::lock_runtime::__private::None:: < Result < u64, Failure > > { return
                __lock_value; } let _ = & id; let __lock_running =
                ::lock_runtime::__private::running_lease(); let held : &
                ::lock_runtime::Lease = & __lock_running; { self.store(id, held.fence()).
                await } }
            );
            __lock_guard.run(__lock_body).await
        };
        __lock_guard.finish().await;
        return match __lock_outcome {
            ::lock_runtime::__private::Ok(__lock_value) => __lock_value,
            ::lock_runtime::__private::Err(__lock_error) => {
                <Result<
                    u64,
                    Failure,
                > as ::lock_runtime::fallback::FromLockError>::fail(
                    __lock_name,
                    __lock_error,
                )
            }
        };
    }
}
