//! Stock and sales, in statements that both databases understand.

use std::path::Path;
use std::time::Duration;

use lock_runtime::assert_held;
use sqlx::AnyPool;
use sqlx::any::{AnyPoolOptions, install_default_drivers};
use tokio::time::sleep;
use url::Url;

const PRODUCT: i64 = 9921;

/// A set-up that meets that of another process fails, and finds everything in place the next time.
const SET_UP_TRIES: u32 = 10;

pub(crate) struct Store {
    pool: AnyPool,
}

impl Store {
    /// The database in a file, which is made if it is missing.
    pub(crate) async fn sqlite(path: &Path) -> sqlx::Result<Self> {
        // A file's URL has the escapes that a path may need.
        let path = std::path::absolute(path)?;
        let file = Url::from_file_path(&path)
            .map_err(|()| sqlx::Error::Configuration("this path cannot be used".into()))?;
        tracing::info!("SQLite in {}", path.display());
        Self::connect(&format!("sqlite://{}?mode=rwc", file.path())).await
    }

    /// The database of a server, by its URL.
    pub(crate) async fn postgres(url: &str) -> sqlx::Result<Self> {
        tracing::info!("PostgreSQL of DATABASE_URL");
        Self::connect(url).await
    }

    async fn connect(url: &str) -> sqlx::Result<Self> {
        install_default_drivers();
        let pool = AnyPoolOptions::new()
            .acquire_timeout(Duration::from_secs(5))
            .connect(url)
            .await?;
        Ok(Self { pool })
    }

    /// Makes the tables and puts the first product into them, unless they are there. Several processes may do this at
    /// once.
    pub(crate) async fn set_up(&self, stock: u32) -> sqlx::Result<()> {
        for _ in 1..SET_UP_TRIES {
            match self.try_set_up(stock).await {
                Err(sqlx::Error::Database(error)) => {
                    tracing::info!(%error, "setting up again");
                    sleep(Duration::from_millis(100)).await;
                }
                outcome => return outcome,
            }
        }
        self.try_set_up(stock).await
    }

    async fn try_set_up(&self, stock: u32) -> sqlx::Result<()> {
        if self.pool.acquire().await?.backend_name() == "SQLite" {
            // Readers of one process do not wait for writers of another.
            sqlx::query("PRAGMA journal_mode = WAL")
                .execute(&self.pool)
                .await?;
        }
        let tables = [
            "CREATE TABLE IF NOT EXISTS products (id BIGINT PRIMARY KEY, stock BIGINT NOT NULL)",
            // No constraint on what is left: a piece that was sold twice is seen here, and not refused.
            "CREATE TABLE IF NOT EXISTS sales (product_id BIGINT NOT NULL, user_id BIGINT NOT NULL, \
             stock BIGINT NOT NULL, sold_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP)",
        ];
        for table in tables {
            sqlx::query(table).execute(&self.pool).await?;
        }
        sqlx::query("INSERT INTO products (id, stock) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING")
            .bind(PRODUCT)
            .bind(i64::from(stock))
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// How much is left of a product, if there is such a product.
    pub(crate) async fn stock(&self, product_id: i64) -> sqlx::Result<Option<i64>> {
        sqlx::query_scalar("SELECT stock FROM products WHERE id = $1")
            .bind(product_id)
            .fetch_optional(&self.pool)
            .await
    }

    /// How many of a product were sold.
    pub(crate) async fn sold(&self, product_id: i64) -> sqlx::Result<i64> {
        sqlx::query_scalar("SELECT COUNT(*) FROM sales WHERE product_id = $1")
            .bind(product_id)
            .fetch_one(&self.pool)
            .await
    }

    /// Overwrites what is left of a product: must only be called under its lock.
    pub(crate) async fn write_stock(&self, product_id: i64, stock: i64) -> sqlx::Result<()> {
        assert_held();
        sqlx::query("UPDATE products SET stock = $1 WHERE id = $2")
            .bind(stock)
            .bind(product_id)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Notes a sale, and the stock that it left.
    pub(crate) async fn write_sale(
        &self,
        product_id: i64,
        user_id: i64,
        stock: i64,
    ) -> sqlx::Result<()> {
        sqlx::query("INSERT INTO sales (product_id, user_id, stock) VALUES ($1, $2, $3)")
            .bind(product_id)
            .bind(user_id)
            .bind(stock)
            .execute(&self.pool)
            .await?;
        Ok(())
    }

    /// Gives the connections back.
    pub(crate) async fn close(&self) {
        self.pool.close().await;
    }
}
