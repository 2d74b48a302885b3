# SPDX-License-Identifier: MIT
"""Waiting: asyncio, Ctrl-C, threads, the GIL."""
import asyncio
import os
import select
import signal
import threading
import time
import unittest

import framelane
from lane_test import LIMIT, LaneTest, pair


class Asyncio(LaneTest):
    def run_async(self, coroutine):
        async def bounded():
            return await asyncio.wait_for(coroutine, LIMIT)
        return asyncio.run(bounded())

    def test_async_for_ends_at_the_end_of_the_stream(self):
        producer, consumer = pair(framelane, burst=32)  # a publish that waits would keep the loop from reading

        async def produce():
            for i in range(20):
                producer.publish(bytes([i]) * 100, pts=i)
                await asyncio.sleep(0.002 if i % 3 == 0 else 0)
            producer.send_eos()

        async def main():
            task = asyncio.create_task(produce())
            seen = [(f.pts, bytes(f)[0]) async for f in consumer]
            await task
            return seen

        self.assertEqual(self.run_async(main()), [(i, i) for i in range(20)])
        self.assertEqual(consumer.stats()["held"], 0)

    def test_either_side_may_start_first(self):
        consumer = framelane.Consumer("cam0", timeout=LIMIT)

        async def produce():
            await asyncio.sleep(0.05)
            with framelane.Producer("cam0") as producer:
                while producer.num_consumers == 0:
                    await asyncio.sleep(0.005)
                producer.publish(b"late")

        async def main():
            task = asyncio.create_task(produce())
            seen = [bytes(f) async for f in consumer]
            await task
            return seen

        self.assertEqual(self.run_async(main()), [b"late"])

    def test_raises_timeout_error_and_goes_on(self):
        producer, consumer = pair(framelane, consumer={"timeout": 0.03})

        async def main():
            with self.assertRaisesRegex(TimeoutError, '"cam0" came within 0.03 s'):
                async for _ in consumer:
                    self.fail("nothing was sent")
            producer.publish(b"x")
            while True:  # a busy machine may take longer than the timeout
                try:
                    async for frame in consumer:
                        return bytes(frame)
                except TimeoutError:
                    pass

        self.assertEqual(self.run_async(main()), b"x")

    def test_a_wait_can_be_cancelled(self):
        producer, consumer = pair(framelane)

        async def read():
            async for frame in consumer:
                return bytes(frame)

        async def main():
            task = asyncio.create_task(read())
            await asyncio.sleep(0.02)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            producer.publish(b"after that")
            return await read()

        self.assertEqual(self.run_async(main()), b"after that")

    def test_close_ends_a_wait_of_another_task(self):
        _producer, consumer = pair(framelane)

        async def read():
            async for _ in consumer:
                self.fail("nothing was sent")

        async def main():
            task = asyncio.create_task(read())
            await asyncio.sleep(0.02)
            consumer.close()
            with self.assertRaisesRegex(framelane.InvalidArgument, "is closed"):
                await task

        self.run_async(main())

    def test_other_tasks_run_while_frames_keep_coming(self):
        producer, consumer = pair(framelane)

        async def main():
            turns = 0

            async def count():
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            task = asyncio.create_task(count())
            seen = 0
            producer.publish(bytes(100))
            async for _ in consumer:
                seen += 1
                if seen == 200:
                    break
                producer.publish(bytes(100))
            task.cancel()
            return turns

        self.assertGreater(self.run_async(main()), 3)

    def test_the_descriptor_is_readable_when_a_take_would_not_wait(self):
        producer, consumer = pair(framelane)
        poll = select.poll()
        poll.register(consumer.fileno(), select.POLLIN)
        self.assertIsNone(consumer.try_take())
        self.assertEqual(poll.poll(0), [])
        producer.publish(b"x")
        self.assertTrue(poll.poll(LIMIT * 1000))
        self.assertEqual(bytes(consumer.take()), b"x")
        self.assertIsNone(consumer.try_take())
        self.assertEqual(poll.poll(0), [])
        producer.send_eos()
        self.assertTrue(poll.poll(LIMIT * 1000))


class Signals(LaneTest):
    def interrupt(self, code, *arguments):
        process = self.start(code, *arguments)
        self.assertEqual(process.stdout.readline(), "waiting\n", "it never came so far")
        time.sleep(0.05)  # so that it waits, and isn't on its way there
        os.kill(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=LIMIT)
        self.assertEqual(out, "interrupted\n", err)
        self.assertEqual(process.returncode, 0)

    def test_ctrl_c_ends_a_wait_for_frames(self):
        producer = framelane.Producer("cam0")
        for what in ("next(consumer)", "consumer.take()", "consumer.take(50)", "consumer.take_many(3)"):
            self.interrupt(f"""
import framelane
consumer = framelane.Consumer("cam0", timeout=60)
consumer.connect()
print("waiting", flush=True)
try:
    {what}
except KeyboardInterrupt:
    print("interrupted")
""")
        producer.close()

    def test_ctrl_c_ends_a_wait_for_the_other_side(self):
        for what in ('framelane.Consumer("cam0").connect()', 'framelane.Producer("cam0").wait_for_consumers()',
                     'framelane.Client("sums").call(b"1")', 'framelane.Server("sums").next()'):
            self.interrupt(f"""
import framelane
print("waiting", flush=True)
try:
    {what}
except KeyboardInterrupt:
    print("interrupted")
""")

    def test_a_frame_that_comes_behind_ctrl_c_is_given_back(self):
        producer, consumer = pair(framelane, consumer={"max_held": 2})
        before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGUSR1, before)

        def interrupt_and_publish():
            time.sleep(0.02)  # so that the other thread waits
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
            producer.publish(bytes(100))

        for take in (consumer.take, lambda: consumer.take(50), lambda: consumer.take_many(3)) * 2:
            thread = threading.Thread(target=interrupt_and_publish)
            with self.assertRaises(KeyboardInterrupt):
                thread.start()
                take()
            thread.join(LIMIT)
            late = consumer.try_take()  # it came when the interrupt had been raised
            if late is not None:
                late.release()
            self.assertEqual(consumer.stats()["held"], 0)

    def test_other_signals_run_their_handlers_and_the_wait_goes_on(self):
        producer, consumer = pair(framelane)
        seen = []
        before = signal.signal(signal.SIGALRM, lambda *_: (seen.append(1), producer.publish(b"from the handler")))
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.03)
        self.assertEqual(bytes(consumer.take()), b"from the handler")
        self.assertEqual(seen, [1])


class Events(LaneTest):
    """Events that keep coming, without a frame."""

    def setUp(self):
        super().setUp()
        self.producer, self.consumer = pair(framelane)
        self.done = threading.Event()
        self.thread = threading.Thread(target=self.send)
        self.addCleanup(self.thread.join, LIMIT)
        self.addCleanup(self.done.set)
        self.thread.start()

    def send(self):
        for _ in range(500):
            self.producer.send_event("custom", "x")
            if self.done.wait(0.02):
                return

    def test_they_do_not_prolong_a_wait(self):
        with self.assertRaises(TimeoutError):
            self.consumer.take(0.3)
        self.assertTrue(self.thread.is_alive(), "it only came back when there were no more events")

    def test_they_do_not_keep_signals_out(self):
        before = signal.signal(signal.SIGALRM, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with self.assertRaises(KeyboardInterrupt):
            self.consumer.take(LIMIT)
        self.assertTrue(self.thread.is_alive(), "it only came back when there were no more events")


class Threads(LaneTest):
    def test_the_gil_is_given_up_while_waiting(self):
        producer, consumer = pair(framelane)
        timer = threading.Timer(0.02, producer.publish, [b"x"])
        timer.start()
        self.assertEqual(bytes(consumer.take()), b"x", "a take with the GIL would have held the timer up for ever")
        timer.join(LIMIT)

    def in_a_thread(self, work):
        said = []

        def run():
            try:
                said.append(work())
            except Exception as error:
                said.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        return thread, said

    def test_one_thread_takes_at_a_time(self):
        producer, consumer = pair(framelane)
        thread, said = self.in_a_thread(lambda: bytes(consumer.take()))
        error = None
        deadline = time.monotonic() + LIMIT
        while error is None and time.monotonic() < deadline:
            try:
                consumer.take(0)
            except framelane.Timeout:
                time.sleep(0.001)
            except RuntimeError as raised:
                error = raised
        self.assertIn("another thread is taking", str(error))
        with self.assertRaisesRegex(RuntimeError, "another thread is taking"):
            consumer.fileno()
        producer.publish(b"x")
        thread.join(LIMIT)
        self.assertEqual(said, [b"x"])

    def test_close_ends_a_wait_on_another_thread(self):
        _producer, consumer = pair(framelane)
        thread, said = self.in_a_thread(consumer.take)
        time.sleep(0.02)
        consumer.close()
        thread.join(LIMIT)
        self.assertIsInstance(said[0], (framelane.Interrupted, framelane.InvalidArgument))
        self.assertTrue(consumer.closed)
        with self.assertRaisesRegex(framelane.InvalidArgument, "is closed"):
            consumer.take()

    def test_interrupt_holds_until_resume(self):
        producer, consumer = pair(framelane)
        thread, said = self.in_a_thread(consumer.take)
        time.sleep(0.02)
        consumer.interrupt()
        thread.join(LIMIT)
        self.assertIsInstance(said[0], framelane.Interrupted)
        with self.assertRaises(framelane.Interrupted):
            consumer.take()
        consumer.resume()
        producer.publish(b"x")
        self.assertEqual(bytes(consumer.take()), b"x")

    def test_threads_fill_loans_while_others_read(self):
        producer, consumer = pair(framelane, burst=16, full_timeout=LIMIT)
        count, threads = 300, 3

        def produce(which):
            for i in range(count):
                with producer.loan(100) as loan:
                    memoryview(loan)[:2] = bytes([which, i % 256])
            return True

        started = [self.in_a_thread(lambda which=which: produce(which)) for which in range(threads)]
        seen = [[] for _ in range(threads)]
        for _ in range(count * threads):
            frame = next(consumer)
            seen[bytes(frame)[0]].append(bytes(frame)[1])
        for thread, said in started:
            thread.join(LIMIT)
            self.assertEqual(said, [True])
        self.assertEqual(seen, [[i % 256 for i in range(count)]] * threads)


class Requests(LaneTest):
    def serve(self, handle, **settings):
        server = framelane.Server("sums", **settings)

        def run():
            for request in server:
                handle(request)
                del request  # else it is alive, and without an answer, until the next one comes

        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join, LIMIT)
        self.addCleanup(server.interrupt)
        return server

    def test_answers_come_back(self):
        server = self.serve(lambda request: request.respond(bytes(request)[::-1]))
        with framelane.Client("sums") as client:
            for text in (b"abc", bytes(range(256)) * 16):
                with client.call(text, timeout=LIMIT) as answer:
                    self.assertEqual(bytes(answer), text[::-1])
                    self.assertTrue(memoryview(answer).readonly)
            self.assertEqual((client.stats()["answered"], client.connected), (2, True))
        self.assertEqual(server.stats()["answered"], 2)

    def test_many_calls_are_in_flight(self):
        self.serve(lambda request: request.respond(request))
        client = framelane.Client("sums")
        calls = [client.start(b"%d" % i, timeout=LIMIT) for i in range(10)]
        self.assertEqual([bytes(call.wait()) for call in reversed(calls)], [b"%d" % i for i in reversed(range(10))])
        self.assertFalse(calls[0].pending)
        with self.assertRaises(framelane.InvalidArgument):
            calls[0].wait()

    def test_errors_reach_the_caller(self):
        def handle(request):
            if bytes(request) == b"refuse":
                request.respond_error("not today")
            if bytes(request) == b"range":
                request.respond_error("out of range", code=6)
        self.serve(handle)
        client = framelane.Client("sums")
        for text, kind, words in ((b"refuse", framelane.Refused, "not today"), (b"range", ValueError, "out of range"),
                                  (b"forget", framelane.Refused, "")):
            with self.assertRaisesRegex(kind, words):
                client.call(text, timeout=LIMIT)

    def test_a_call_times_out(self):
        over = threading.Event()
        self.serve(lambda request: over.wait(LIMIT))
        self.addCleanup(over.set)
        client = framelane.Client("sums")
        client.connect(LIMIT)
        call = client.start(b"slow", timeout=0.5)
        with self.assertRaises(TimeoutError):
            call.wait(0)
        self.assertTrue(call.pending)
        with self.assertRaises(TimeoutError):
            call.wait()
        self.assertFalse(call.pending)

    def test_a_cancelled_call_is_told(self):
        told = []

        def handle(request):
            self.wait_until(lambda: request.cancelled, "never cancelled")
            told.append(request.deadline is not None)
        self.serve(handle)
        client = framelane.Client("sums")
        call = client.start(b"x", timeout=LIMIT)
        time.sleep(0.02)
        call.cancel()
        self.assertFalse(call.pending)
        self.wait_until(lambda: told, "never seen")

    def test_a_call_that_is_waited_for_is_pending(self):
        asked, answer = threading.Event(), threading.Event()

        def handle(request):
            asked.set()
            answer.wait(LIMIT)
            request.respond(b"late")

        self.serve(handle)
        call = framelane.Client("sums").start(b"x", timeout=LIMIT)
        said = []
        thread = threading.Thread(target=lambda: said.append(bytes(call.wait())))
        thread.start()
        self.assertTrue(asked.wait(LIMIT))
        self.assertTrue(call.pending)
        answer.set()
        while thread.is_alive():  # the answer comes while somebody asks
            call.pending
            thread.join(0.0001)
        self.assertEqual((said, call.pending), ([b"late"], False))

    def test_the_gil_is_given_up_while_a_request_is_sent(self):
        self.serve(lambda request: request.respond(b""), burst=1, max_request_size=8 << 20)
        client = framelane.Client("sums", burst=1, max_request_size=8 << 20)
        client.connect(LIMIT)
        turn = None
        for _ in range(100):
            call, turn = self.meanwhile(lambda: client.start(bytes(8 << 20), timeout=LIMIT), lambda: "had a turn")
            self.assertEqual(bytes(call.wait()), b"")
            if turn is not None:
                break
        self.assertEqual(turn, "had a turn")

    def test_what_was_given_back_says_what_it_was(self):
        released = []

        def handle(request):
            request.respond(bytes(request))
            request.release()
            released.append(request)

        self.serve(handle)
        answer = framelane.Client("sums").call(b"x", timeout=LIMIT)
        answer.release()
        self.wait_until(lambda: released, "never answered")
        for used, words in ((released[0], "this request was given back already; read and answer it before that"),
                            (answer, "this view was given back already; take another one of its frame")):
            with self.assertRaisesRegex(framelane.ReleasedError, words):
                memoryview(used)

    def test_connect_timeout_bounds_the_whole_wait(self):
        client = framelane.Client("sums", connect_timeout=0.3)  # longer than a slice of the wait
        for ask in (client.connect, lambda timeout: client.call(b"x", timeout),
                    lambda timeout: client.start(b"x", timeout)):
            with self.assertRaisesRegex(FileNotFoundError, "no server of sums-requests .*raise connect_timeout"):
                ask(timeout=20)
            with self.assertRaises(TimeoutError):
                ask(timeout=0.15)

    def test_the_time_to_connect_is_part_of_a_calls(self):
        began = threading.Event()

        def ask():
            client = framelane.Client("sums")
            began.set()
            client.call(b"x", timeout=LIMIT)

        thread = threading.Thread(target=ask)
        thread.start()
        self.addCleanup(thread.join, LIMIT)
        self.assertTrue(began.wait(LIMIT))
        time.sleep(0.3)  # so that the call has begun
        late = time.monotonic_ns()
        with framelane.Server("sums") as server:
            request = server.next(LIMIT)
            deadline = request.deadline
            request.respond(b"")
            self.assertLess(deadline, late + int(LIMIT * 1e9))
            thread.join(LIMIT)

    def test_a_client_without_a_server_says_so(self):
        with self.assertRaises(FileNotFoundError):
            framelane.Client("sums", connect_timeout=0.05).call(b"x")
        with self.assertRaises(TimeoutError):
            framelane.Client("more").call(b"x", timeout=0.05)
        with self.assertRaisesRegex(TypeError, 'Server has no setting "connect_timeout"'):
            framelane.Server("more", connect_timeout=1)


if __name__ == "__main__":
    unittest.main()
