impl Service {
    async fn report() {
        let __lock_name = ::lock_runtime::__private::concat!(
            ::lock_runtime::__private::module_path!(), "::", "report"
        );
        let __lock_keys = ::lock_runtime::__private::Keys::one(
            ::lock_runtime::__private::IntoKey::into_key("report"),
        );
        let mut __lock_guard = ::lock_runtime::__private::Guard::new(
                __lock_name,
                __lock_keys,
            )
            .ttl(::lock_runtime::__private::Duration::from_millis(3600000u64));
        let __lock_outcome = {
            let __lock_body = ::lock_runtime::__private::pin!(
                async move { if let ::lock_runtime::__private::Some(__lock_value) =
                ::lock_runtime::__private::None:: < () > { return __lock_value; } {
                write(). await } }
            );
            __lock_guard.run(__lock_body).await
        };
        __lock_guard.finish().await;
        return match __lock_outcome {
            ::lock_runtime::__private::Ok(__lock_value) => __lock_value,
            ::lock_runtime::__private::Err(__lock_error) => {
                <() as ::lock_runtime::fallback::Skipped>::skip(
                    __lock_name,
                    __lock_error,
                )
            }
        };
    }
}
