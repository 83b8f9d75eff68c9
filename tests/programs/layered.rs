//! A program with a subscriber of its own and mote's layer, which never calls `mote_tracing::init`.

use tracing_subscriber::layer::SubscriberExt;

fn main() {
    let subscriber = tracing_subscriber::registry().with(mote_tracing::layer());
    tracing::subscriber::set_global_default(subscriber).expect("the only one");
    tracing::info!(name: "done", target: "app", number = 1);
}
