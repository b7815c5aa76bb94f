impl Service {
    fn count<'a>(
        &'a self,
        n: u64,
    ) -> Pin<Box<dyn Future<Output = Result<u64, Failure>> + Send + 'a>> {
        let n = n + 1;
        Box::pin(async move {
            let name = ::lock_runtime::__private::core::concat!(
                ::lock_runtime::__private::core::module_path!(), "::", "count"
            );
            let keys = ::lock_runtime::__private::Keys::one(
                ::lock_runtime::__private::format!("{0}", self.region),
            );
            let mut guard = ::lock_runtime::__private::Guard::new(name, keys)
                .ttl(::lock_runtime::__private::Duration::from_millis(8000u64))
                .wait(::lock_runtime::__private::Duration::from_millis(500u64));
            let outcome = {
                let body = ::lock_runtime::__private::core::pin::pin!(
                    async move { if let
                    ::lock_runtime::__private::core::option::Option::Some(value) =
                    ::lock_runtime::__private::core::option::Option::None:: < Result <
                    u64, Failure > > { return value; } { self.count(n). await } }
                );
                let outcome = guard.run(body).await;
                outcome
            };
            guard.finish().await;
            match outcome {
                ::lock_runtime::__private::core::result::Result::Ok(value) => value,
                ::lock_runtime::__private::core::result::Result::Err(error) => {
                    ::lock_runtime::__private::busy_or::<
                        Result<u64, Failure>,
                    >(name, error, |_| Ok(0))
                }
            }
        })
    }
}
