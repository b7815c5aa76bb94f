impl Service {
    async fn report() {
        let name = ::lock_runtime::__private::core::concat!(
            ::lock_runtime::__private::core::module_path!(), "::", "report"
        );
        let keys = ::lock_runtime::__private::Keys::one("report");
        let mut guard = ::lock_runtime::__private::Guard::new(name, keys)
            .ttl(::lock_runtime::__private::Duration::from_millis(3600000u64));
        let outcome = {
            let body = ::lock_runtime::__private::core::pin::pin!(
                async move { if let
                ::lock_runtime::__private::core::option::Option::Some(value) =
                ::lock_runtime::__private::core::option::Option::None:: < () > { return
                value; } { write(). await } }
            );
            let outcome = guard.run(body).await;
            outcome
        };
        guard.finish().await;
        match outcome {
            ::lock_runtime::__private::core::result::Result::Ok(value) => value,
            ::lock_runtime::__private::core::result::Result::Err(error) => {
                ::lock_runtime::__private::skip::<()>(name, error)
            }
        }
    }
}
