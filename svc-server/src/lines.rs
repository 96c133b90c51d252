//! Lines to an output that may be slow, or a pipe that nobody reads.

use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// So long do lines gather: a thread that is woken for each would cost more than all that the line tells of.
const GATHER: Duration = Duration::from_millis(5);
/// Bytes that wait to be written.
const MAX_WAITING: usize = 1 << 20;
/// An end does not wait longer for an output that takes nothing.
const FLUSH_DEADLINE: Duration = Duration::from_secs(1);

/// Writes lines from a thread of its own, so that an output holds nobody up. A line is out within a few milliseconds; one that
/// finds no room, a megabyte, is not taken.
///
/// ```
/// use svc_server::Lines;
/// let lines = Lines::to(std::io::stdout());
/// assert!(lines.push(b"one\n"));
/// assert!(!lines.push(&[b'x'; 2 << 20])); // longer than all that may wait
/// lines.flush();
/// ```
#[derive(Clone, Debug)]
pub struct Lines(Arc<Handle>);

/// What all clones hold: the thread ends after it.
#[derive(Debug)]
struct Handle(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    written: Condvar,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    /// Somebody waits for the end of it.
    hurry: bool,
    writing: bool,
    /// No more will come.
    closed: bool,
}

impl Lines {
    /// Begins to write to an output, until the last clone is gone. What it refuses is lost, with what had gathered: whoever
    /// closed it does not want to read.
    pub fn to(mut output: impl Write + Send + 'static) -> Self {
        let shared = Arc::new(Shared::default());
        let lines = Self(Arc::new(Handle(Arc::clone(&shared))));
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            while shared.gathered(&mut bytes) {
                let _ = output.write_all(&bytes).and_then(|()| output.flush());
                bytes.clear();
            }
        });
        lines
    }

    /// Takes a line, with its end; `false` where there is no room for it.
    pub fn push(&self, line: &[u8]) -> bool {
        let Handle(shared) = &*self.0;
        let mut waiting = shared.lock();
        if waiting.bytes.len() + line.len() > MAX_WAITING {
            return false;
        }
        let first = waiting.bytes.is_empty();
        waiting.bytes.extend_from_slice(line);
        drop(waiting);
        if first {
            shared.changed.notify_one();
        }
        true
    }

    /// Waits a moment for what is not written yet.
    pub fn flush(&self) {
        let Handle(shared) = &*self.0;
        let mut waiting = shared.lock();
        waiting.hurry = true;
        shared.changed.notify_one();
        let is_left = |waiting: &mut Waiting| waiting.writing || !waiting.bytes.is_empty();
        let _ = shared.written.wait_timeout_while(waiting, FLUSH_DEADLINE, is_left);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_one();
    }
}

impl Shared {
    /// Waits for lines, then a little for more, and swaps them for what has been written; `false` after the last.
    fn gathered(&self, bytes: &mut Vec<u8>) -> bool {
        let mut waiting = self.lock();
        waiting.writing = false;
        if waiting.bytes.is_empty() {
            waiting.hurry = false;
            self.written.notify_all();
        }
        let none = |waiting: &mut Waiting| waiting.bytes.is_empty() && !waiting.closed;
        let waiting = self.changed.wait_while(waiting, none).unwrap_or_else(PoisonError::into_inner);
        let calm = |waiting: &mut Waiting| !waiting.hurry && !waiting.closed;
        let gathered = self.changed.wait_timeout_while(waiting, GATHER, calm);
        let (mut waiting, _) = gathered.unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut waiting.bytes, bytes);
        waiting.writing = !bytes.is_empty();
        waiting.writing
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // What is in it are bytes, whoever has panicked.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{SyncSender, sync_channel};

    use super::*;

    /// Hands on each write, and waits until it is taken.
    struct Output(SyncSender<Vec<u8>>);

    impl Write for Output {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.send(bytes.to_vec()).map_err(std::io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_come_whole_and_in_order_and_an_output_that_takes_none_holds_nobody_up() {
        let (output, written) = sync_channel(0);
        let lines = Lines::to(Output(output));
        let line = |number: usize| format!("{number:0>999}\n");
        // Nothing is taken yet: there is room for a megabyte, and at most one that is being written.
        let taken = (0..5_000).take_while(|number| lines.push(line(*number).as_bytes())).count();
        assert!((1_000..=3_000).contains(&taken), "{taken}");
        let mut all = Vec::new();
        while all.len() < taken * 1_000 {
            all.extend(written.recv().unwrap());
        }
        assert_eq!(String::from_utf8(all).unwrap(), (0..taken).map(line).collect::<String>());
        assert!(lines.push(b"again\n"));
        assert_eq!(written.recv().unwrap(), b"again\n");
        assert!(lines.push(b"last\n"));
        drop(lines);
        assert_eq!(written.recv().unwrap(), b"last\n");
        assert!(written.recv().is_err(), "the thread has ended, and its output with it");
    }

    #[test]
    fn what_was_pushed_is_written_after_a_flush() {
        let (output, written) = sync_channel(1);
        let lines = Lines::to(Output(output));
        assert!(lines.push(b"one\n"));
        lines.flush();
        assert_eq!(written.try_recv().unwrap(), b"one\n");
    }
}
