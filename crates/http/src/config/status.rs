//! `status`: in which form a location shows how the daemon is.

drover_config::choice! {
    /// The form of the status.
    pub enum StatusForm {
        /// What `drover status --json` prints.
        Json = "json",
        /// For Prometheus and its like.
        OpenMetrics = "openmetrics",
        /// A page for people, which renews itself.
        Page = "page",
    }
}
