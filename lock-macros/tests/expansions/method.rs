impl Service {
    /// Pays.
    #[must_use]
    pub async fn pay(
        &self,
        order: Order,
        mut tries: u32,
        unused: u8,
        _4: Permit,
    ) -> Result<u64, Failure> {
        #![allow(clippy::unused_async)]
        let __lock_name = ::lock_runtime::__private::concat!(
            ::lock_runtime::__private::module_path!(), "::", "pay"
        );
        let __lock_keys = ::lock_runtime::__private::Keys::one(
            ::lock_runtime::__private::IntoKey::into_key(
                ::lock_runtime::__private::format!("order:{0}", order.id),
            ),
        );
        let mut __lock_guard = ::lock_runtime::__private::Guard::new(
                __lock_name,
                __lock_keys,
            )
            .ttl(::lock_runtime::__private::Duration::from_millis(8000u64));
        let __lock_outcome = {
            let __lock_body = ::lock_runtime::__private::pin!(
                async move { if let ::lock_runtime::__private::Some(__lock_value) =
                ::lock_runtime::__private::None:: < Result < u64, Failure > > { return
                __lock_value; } #[allow(clippy::used_underscore_binding)] let _ = & _4;
                let _ = & tries; let _ = & order; let unused = unused; { tries += 1;
                Ok(order.total) } }
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
