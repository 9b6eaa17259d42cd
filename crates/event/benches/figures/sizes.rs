//! What a slot takes.

use drover_event::bench::SIZES;

use super::table::{Column, Table};

pub(crate) fn run(table: &mut Table) {
    for (what, bytes) in
        ["bytes of a connection", "bytes of an event", "bytes of a slot: a connection, two events"]
            .into_iter()
            .zip(SIZES)
    {
        let mut column = Column::new("drover");
        column.note(bytes as f64);
        table.row(what, "bytes", &[column]);
    }
}
