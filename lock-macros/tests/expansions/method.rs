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
        let name = ::lock_runtime::__private::core::concat!(
            ::lock_runtime::__private::core::module_path!(), "::", "pay"
        );
        let keys = ::lock_runtime::__private::Keys::one(
            ::lock_runtime::__private::format!("order:{0}", order.id),
        );
        let mut guard = ::lock_runtime::__private::Guard::new(name, keys)
            .ttl(::lock_runtime::__private::Duration::from_millis(8000u64));
        let outcome = {
            let body = ::lock_runtime::__private::core::pin::pin!(
                async move { if let
                ::lock_runtime::__private::core::option::Option::Some(value) =
                ::lock_runtime::__private::core::option::Option::None:: < Result < u64,
                Failure > > { return value; } #[allow(clippy::used_underscore_binding)]
                let _ = & _4; let _ = & tries; let _ = & order; let unused = unused; {
                tries += 1; Ok(order.total) } }
            );
            let outcome = guard.run(body).await;
            outcome
        };
        guard.finish().await;
        match outcome {
            ::lock_runtime::__private::core::result::Result::Ok(value) => value,
            ::lock_runtime::__private::core::result::Result::Err(error) => {
                ::lock_runtime::__private::fail::<Result<u64, Failure>>(name, error)
            }
        }
    }
}
