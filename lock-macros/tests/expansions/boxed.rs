impl Service {
    fn count<'a>(
        &'a self,
        n: u64,
    ) -> Pin<Box<dyn Future<Output = Result<u64, Failure>> + Send + 'a>> {
        let n = n + 1;
        Box::pin(async move {
            let __lock_name = ::lock_runtime::__private::concat!(
                ::lock_runtime::__private::module_path!(), "::", "count"
            );
            let __lock_keys = ::lock_runtime::__private::Keys::one(
                ::lock_runtime::__private::IntoKey::into_key(
                    ::lock_runtime::__private::format!("{0}", self.region),
                ),
            );
            let mut __lock_guard = ::lock_runtime::__private::Guard::new(
                    __lock_name,
                    __lock_keys,
                )
                .ttl(::lock_runtime::__private::Duration::from_millis(8000u64))
                .wait(::lock_runtime::__private::Duration::from_millis(500u64));
            let __lock_outcome = {
                let __lock_body = ::lock_runtime::__private::pin!(
                    async move { if let ::lock_runtime::__private::Some(__lock_value) =
                    ::lock_runtime::__private::None:: < Result < u64, Failure > > {
                    return __lock_value; } { self.count(n). await } }
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
                    > as ::lock_runtime::fallback::FromOutage>::busy_or(
                        __lock_name,
                        __lock_error,
                        |_| Ok(0),
                    )
                }
            };
        })
    }
}
