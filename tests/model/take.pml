/* SPDX-License-Identifier: MIT
 *
 * Who may touch a slot: publish (P1..P4), reclaim (R0..R4), take (T1..T6), release, skip, demotion, catching up, death.
 * One producer, consumer GATE (mode every, gates until demoted), consumer LATEST (never gates).
 *
 * Checked here:
 *   - the producer never writes a slot that somebody reads, and what a reader finds there is the frame of its entry;
 *   - GATE misses a frame only if the producer passed over it (policy or demotion) while it was allowed to;
 *   - no frame is taken twice, frames come in order;
 *   - every slot comes back, also after a death at any step: a slot that does not ends in a deadlock.
 *
 * Store buffers. The producer's RETIRED tag and oldest_live go through `sb`, emptied at any time, and at R3. The consumer's
 * hold bit is a seq_cst RMW, which empties the buffer, so it needs one only in the mutation HOLD_PLAIN_STORE.
 *
 * Options:   POLICY  GATE can be demoted (and gates again), or passed over while it gates (leaky=downstream)
 *            DIES=n  consumer n can die at any step; the monitor then drops its page
 *            EVICTS  the producer gives GATE up while its process lives on
 * Mutations: NO_RECHECK HOLD_PLAIN_STORE HOLD_AFTER_RECHECK CURSOR_BEFORE_HOLD NO_R3_FENCE RETIRE_AFTER_CHECK
 *            TAG_LAST_ONLY NO_GATE IGNORE_LATEST KEEP_DEAD_BITS EVICT_DROPS_BITS NO_CLEAR_ON_RETRY SKIP_TO_OLDEST_ONLY
 */
#ifndef NS
#define NS 3     /* slots */
#endif
#ifndef LAST
#define LAST 5   /* frames */
#endif
#ifndef MAX_HELD
#define MAX_HELD 1
#endif
#ifndef BURST
#define BURST 2
#endif
#ifndef MARGIN
#define MARGIN 1 /* the design's 8: an entry is retired this many publishes before it is overwritten */
#endif
#ifndef NE
#define NE 4     /* entries */
#endif
#define FIRST NE /* as in the design: zeroed memory is never a valid tag */
#define END (FIRST + LAST)
#define RETIRED 128
#define GATE 0
#define LATEST 1
#define bit(k) (1 << (k))

/* shared memory: ring, written by the producer */
byte tag[NE], slot[NE];
byte oldest_live = FIRST;
/* shared memory: consumer pages */
byte cursor[2] = FIRST;
byte hold[2];

/* the producer's private state, global so that the monitor can drop a page */
mtype = { FREE, LIVE, HELD };
mtype state[NS] = FREE;
bool present[2] = true, gating = true;

/* ghosts: what is true, as opposed to what a process knows */
byte payload[NS];    /* sequence number of the frame whose bytes are there, 0 while they are being written */
byte reading[2];     /* bit k: the consumer reads slot k */
short passed;        /* bit s - FIRST: GATE was lawfully passed over at frame s */
bool dying[2], gone[2];

#define older(c) (tag[(c) % NE] == 0 || (tag[(c) % NE] < RETIRED && tag[(c) % NE] < (c)) || \
                  (tag[(c) % NE] > RETIRED && tag[(c) % NE] < RETIRED + (c)))
#define holds(n, k) (present[n] && (hold[n] & bit(k)))
#define none_held(k) (state[k] != HELD)
#if NS > 2
#define NONE_HELD (none_held(0) && none_held(1) && none_held(2))
#else
#define NONE_HELD (none_held(0) && none_held(1))
#endif
#define freeable(k) (state[k] == HELD && !holds(GATE, k) && !holds(LATEST, k))

/* ---- store buffer of the producer: FIFO, emptied at any time ---- */
#define TO_OLDEST 255
chan sb = [2] of { byte, byte };
active proctype drain_producer() {
  byte a, v;
end:
  do
  :: atomic { sb?a,v -> if :: a == TO_OLDEST -> oldest_live = v :: else -> tag[a] = v fi; a = 0; v = 0 }
  od
}

#ifdef HOLD_PLAIN_STORE
chan sbc[2] = [1] of { byte };
proctype drain_consumer(byte me) {
  byte v;
end:
  do
  :: atomic { sbc[me]?v -> hold[me] = hold[me] | bit(v); v = 0 }
  od
}
#define SET_HOLD(me, k) sbc[me]!k
#define RMW_READY(me) empty(sbc[me])
#else
#define SET_HOLD(me, k) hold[me] = hold[me] | bit(k)
#define RMW_READY(me) true
#endif
#define CLEAR_HOLD(me, k) hold[me] = hold[me] & (255 - bit(k))

/* R4 for one slot: every consumer's hold word, one load each. */
inline look(k) {
  held = holds(GATE, k);
#ifndef IGNORE_LATEST
  held = held || holds(LATEST, k);
#endif
  d_step { if :: held -> state[k] = HELD :: else -> state[k] = FREE fi; held = false }
}

/* Retires entry o. R1 has let it pass; why it may pass is the caller's business. */
inline retire() {
#ifdef RETIRE_AFTER_CHECK
  look(slot[o % NE]);
#endif
#ifndef TAG_LAST_ONLY
  sb!(o % NE),(RETIRED + o);      /* R2 */
#endif
  sb!TO_OLDEST,(o + 1);           /* R2 */
#ifndef NO_R3_FENCE
  empty(sb);                      /* R3 */
#endif
#ifndef RETIRE_AFTER_CHECK
  look(slot[o % NE]);             /* R4 */
#endif
  o++
}

/* R1: the gating consumer is past o, as far as a (re)loaded cursor tells. NO_GATE drops this and P1's look at the cursor:
   either of them alone suffices here, since R0 never retires the newest BURST frames, and P1 keeps GATE within those. */
#ifdef NO_GATE
#define R1_PAST true
#define BEHIND(x) false
#else
#define BEHIND(x) (present[GATE] && gating && s - (x) >= BURST)
#define R1_PAST (!present[GATE] || !gating || cached > o || cursor[GATE] > o)
#endif
inline r1_note() {
  d_step {
    if
    :: cached <= o -> cached = cursor[GATE]; assert(cached >= FIRST && cached <= s)
    :: else
    fi;
    if
    :: present[GATE] && gating && cached > o
    :: (present[GATE] && !gating) || !present[GATE] -> passed = passed | bit(o - FIRST)
    :: else   /* NO_GATE only */
    fi
  }
}

active proctype producer() {
  byte s = FIRST, o = FIRST, cached = FIRST, k;
  bool held;
  do
  :: s == END -> break
  :: else ->
loan:
    if
    :: state[0] == FREE -> k = 0
    :: state[0] != FREE && state[1] == FREE -> k = 1
#if NS > 2
    :: state[0] != FREE && state[1] != FREE && state[2] == FREE -> k = 2
#endif
    :: else ->
       /* No free slot. Blocks when nothing can be done: what never comes back is a deadlock. */
       if
       :: s - o > BURST && R1_PAST -> r1_note(); retire()    /* R0, R1 */
#ifdef POLICY
       :: s - o > BURST && !R1_PAST -> gating = false       /* stall-timeout: demotion */
#endif
       :: freeable(0) -> look(0)
       :: freeable(1) -> look(1)
#if NS > 2
       :: freeable(2) -> look(2)
#endif
       fi;
       goto loan
    fi;
    d_step { state[k] = LIVE; assert(!(reading[GATE] & bit(k)) && !(reading[LATEST] & bit(k))); payload[k] = 0 }
    payload[k] = s;
room: /* P1 */
    if
    :: BEHIND(cached) && !BEHIND(cursor[GATE]) -> cached = cursor[GATE]; goto room
#ifdef POLICY
    :: BEHIND(cached) && BEHIND(cursor[GATE]) -> gating = false; goto room
    :: BEHIND(cached) && BEHIND(cursor[GATE]) && s - o >= BURST ->
       /* leaky=downstream: retires exactly one, and counts GATE as past it */
       passed = passed | bit(o - FIRST);
       retire();
       d_step { if :: cached < o -> cached = o :: else fi }
       goto room
#endif
    :: !BEHIND(cached) && !(s + MARGIN < o + NE) && R1_PAST ->
       r1_note(); retire(); goto room
    :: !BEHIND(cached) && s + MARGIN < o + NE
    fi;
    empty(sb);               /* the buffer is FIFO: P3 and P4 leave it after R2 */
    slot[s % NE] = k;        /* P3 */
    tag[s % NE] = s;         /* P4 */
    s++;
    if /* demoted: gates again once it has caught up */
    :: present[GATE] && !gating && cursor[GATE] >= s - BURST / 2 ->
       d_step { cached = cursor[GATE]; gating = true }
    :: else
    fi
  od;
  /* Everything comes back: all consumers have released or died. */
  do
  :: o + BURST < s && R1_PAST -> r1_note(); retire()
  :: freeable(0) -> look(0)
  :: freeable(1) -> look(1)
#if NS > 2
  :: freeable(2) -> look(2)
#endif
  :: o + BURST >= s && NONE_HELD -> break
  od
}

inline release(me, b) {
  atomic { RMW_READY(me) -> CLEAR_HOLD(me, b); reading[me] = reading[me] & (255 - bit(b)) }
}

proctype consumer(byte me) {
  byte c = FIRST, n, k;
  {
  do
  :: reading[me] & 1 -> release(me, 0)
  :: reading[me] & 2 -> release(me, 1)
  :: reading[me] & 4 -> release(me, 2)
  :: c == END && reading[me] == 0 -> break
  :: c < END && !older(c) && (reading[me] == 0 || (MAX_HELD > 1 && (reading[me] & (reading[me] - 1)) == 0)) ->
     if
     :: me == LATEST -> /* walk to the last valid entry */
        n = c + 1;
        do
        :: n < END && tag[n % NE] == n -> n++
        :: else -> break
        od;
        atomic { if :: n > c + 1 -> c = n - 1 :: else fi; n = 0 }
     :: else
     fi;
     if
     :: tag[c % NE] != c -> /* T1: newer or RETIRED: skip */
        d_step {
          n = c;
#ifdef SKIP_TO_OLDEST_ONLY
          c = oldest_live;
#else
          c = (oldest_live > c -> oldest_live : c + 1);
#endif
          assert(c > n); /* else the consumer spins until the producer's next step, for ever if that one was killed */
          do
          :: n < c -> assert(me != GATE || (passed & bit(n - FIRST))); n++
          :: else -> break
          od;
          n = 0
        }
        cursor[me] = c
     :: tag[c % NE] == c -> /* T1 */
#ifdef CURSOR_BEFORE_HOLD
        cursor[me] = c + 1;
#endif
        k = slot[c % NE];                                    /* T2 */
#ifdef HOLD_AFTER_RECHECK
        if :: tag[c % NE] == c :: else -> goto next fi;
#endif
        atomic { RMW_READY(me) -> SET_HOLD(me, k) }          /* T3 */
#if defined(NO_RECHECK) || defined(HOLD_AFTER_RECHECK)
        reading[me] = reading[me] | bit(k);
#else
        if                                                   /* T4 */
        :: atomic { tag[c % NE] == c -> reading[me] = reading[me] | bit(k) }
        :: else ->
#ifndef NO_CLEAR_ON_RETRY
           atomic { RMW_READY(me) -> CLEAR_HOLD(me, k) }
#endif
           goto next
        fi;
#endif
        assert(payload[k] == c);                             /* T5 stands in order.pml */
        cursor[me] = c + 1;                                  /* T6 */
        c++
     fi;
next:
     k = 0
  od
  } unless { dying[me] };
#ifdef DIES
  /* The kernel takes the memory down, so it reads no more, before the monitor sees the hang-up. */
  atomic { if :: dying[me] -> reading[me] = 0; c = 0; n = 0; k = 0 :: else fi; gone[me] = true }
#endif
}

#ifdef DIES
active proctype death() {
  dying[DIES] = true;
  gone[DIES];
#ifndef KEEP_DEAD_BITS
  present[DIES] = false
#endif
}
#endif

#ifdef EVICTS
/* Too many queued messages: the connection ends, but the process lives and may still read what it holds. */
active proctype monitor() {
  gating = false;
#ifdef EVICT_DROPS_BITS
  present[GATE] = false
#endif
}
#endif

init {
  atomic {
    run consumer(GATE);
    run consumer(LATEST);
#ifdef HOLD_PLAIN_STORE
    run drain_consumer(GATE);
    run drain_consumer(LATEST)
#endif
  }
}
