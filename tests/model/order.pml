/* SPDX-License-Identifier: MIT
 *
 * Control messages and frames: a message is queued before its MARKER entry is published; a consumer applies messages up to an
 * entry's `ctl` before it returns the frame; a skipped marker loses no message; what was skipped is counted exactly; a joiner
 * gets the state at its start. The consumer never gates here, so every marker can be skipped.
 *
 * Slots stand in take.pml, so entries are inline ones. Each word of an entry is a store of its own: a late reader sees torn
 * entries, and T4 throws them away. The wait for a message on its way is bounded in the design (1 s, then a protocol error),
 * so a message that nobody has queued yet counts as lost.
 *
 * Options:   LATEST  the consumer walks to the last frame, else it takes every frame
 *            JOINS   the consumer joins at any time, with a history of one frame
 * Mutations: MARKER_BEFORE_MESSAGE APPLY_BEFORE_RECHECK SKIP_APPLIES_ALL NO_CTL_IN_FRAMES NO_RECHECK TAG_LAST_ONLY
 *            R0_NEVER_YIELDS STICKY_AT_HEAD JOIN_WITHOUT_MUTEX
 */
#ifndef LAST
#define LAST 6   /* entries, each a frame or a marker */
#endif
#define NE 4
#define FIRST NE
#define END (FIRST + LAST)
#define MARGIN 1
#define BURST 1  /* frames that R0 keeps */
#define MARKER 64
#define RETIRED 128
#define SEQ(t) ((t) & 63)

/* shared memory */
byte tag[NE], ctl[NE];
byte oldest_live = FIRST;

/* the producer's process */
byte head = FIRST;        /* next entry */
byte number;              /* of the last numbered message */
bool mutex;
#ifdef JOINS
bool joined;
#else
bool joined = true;
#endif

/* the consumer's socket: numbers first .. queued are, or were, in it */
byte first = 1, queued;
byte start = FIRST;       /* start and sticky state: they stand in WELCOME */
byte sticky;

/* ghosts, by sequence number */
byte true_ctl[END + 1];
bool is_frame[END + 1];

#define LOCK atomic { !mutex -> mutex = true }
#define UNLOCK mutex = false

inline publish(flags, frame) {
  d_step { true_ctl[s] = number; is_frame[s] = frame }
  ctl[s % NE] = number;        /* P3 */
  tag[s % NE] = s + flags;     /* P4 */
  atomic { s++; head = s }
}

/* P1: retires until there is room for entry s. R0 keeps the newest frames, unless the ring itself has no room: markers alone
   can fill it while no frame comes, and without a gating consumer there is nobody to wait for or to demote. */
inline make_room() {
  do
  :: s + MARGIN < o + NE -> break
  :: s + MARGIN >= o + NE ->
#ifdef R0_NEVER_YIELDS
     !is_frame[o] || frames > BURST;
#endif
     if :: is_frame[o] -> frames-- :: else fi;
#ifndef TAG_LAST_ONLY
     tag[o % NE] = tag[o % NE] | RETIRED;   /* R2 */
#endif
     o++;
     oldest_live = o                        /* R2 */
  od
}

active proctype producer() {
  byte s = FIRST, o = FIRST, frames;
  do
  :: s == END -> break
  :: s < END ->                              /* a frame; the last entry is one */
     LOCK; make_room(); UNLOCK;
     frames++;
     publish(0, true)
  :: s < END - 1 ->                          /* a control message */
     LOCK;
     make_room();
#ifdef MARKER_BEFORE_MESSAGE
     number++;
     publish(MARKER, false);
     if :: joined -> queued = number :: else fi;
#else
     number++;
     if :: joined -> queued = number :: else fi;
     publish(MARKER, false);
#endif
     UNLOCK
  od
}

#ifdef JOINS
/* Under the reclaim mutex. Messages of entries between start and head are queued from the log. */
active proctype join() {
#ifndef JOIN_WITHOUT_MUTEX
  LOCK;
#endif
  atomic { /* the newest frame, with at most one marker after it, else head */
    if
    :: head - 1 >= oldest_live && is_frame[head - 1] -> start = head - 1
    :: head - 2 >= oldest_live && is_frame[head - 2] && !is_frame[head - 1] -> start = head - 2
    :: else -> start = head
    fi
  }
#ifdef STICKY_AT_HEAD
  sticky = number;
#else
  sticky = true_ctl[start - 1];
#endif
  d_step { first = sticky + 1; queued = number }
  joined = true;
#ifndef JOIN_WITHOUT_MUTEX
  UNLOCK
#endif
}
#endif

/* T5 */
inline apply(upto) {
  do
  :: applied < upto ->
     assert(applied < queued);            /* in the queue: on its way, or here */
     assert(applied + 1 >= first);
     applied++
  :: else -> break
  od
}

active proctype consumer() {
  byte c, n, t, x, before, prev, prev_ctl, applied, skipped, missed;
  joined;
  atomic { c = start; applied = sticky; prev = c - 1; prev_ctl = applied }
  do
  :: c == END -> break
  :: else ->
#ifdef LATEST
     /* to the last frame entry with a valid tag */
     n = c;
     x = c;
     do
     :: n < END ->
        t = tag[n % NE];
        if
        :: t == n -> x = n; n++
        :: t == n + MARKER -> n++
        :: else -> break
        fi
     :: else -> break
     od;
     c = x;
#endif
     atomic { SEQ(tag[c % NE]) >= c -> t = tag[c % NE] }   /* T1 */
     if
     :: SEQ(t) > c || t >= RETIRED ->     /* skip: drain the socket into a private queue, apply nothing */
#ifdef SKIP_APPLIES_ALL
        apply(queued);
#endif
        c = oldest_live
     :: else ->
        x = ctl[c % NE];                  /* T2 */
#ifdef APPLY_BEFORE_RECHECK
        apply(x);
#endif
        if
#ifndef NO_RECHECK
        :: tag[c % NE] != t -> goto next  /* T4 */
#endif
        :: else
        fi;
        if
        :: t < MARKER ->                  /* a frame */
#ifndef NO_CTL_IN_FRAMES
           apply(x);                      /* T5 */
#endif
           /* Just the messages before this frame: none missing, none early. */
           assert(applied == true_ctl[c]);
           d_step {
             skipped = c - prev - 1 - (applied - prev_ctl);
             missed = 0;
             n = prev + 1;
             do
             :: n < c -> missed = missed + is_frame[n]; n++
             :: else -> break
             od;
             assert(skipped == missed);
             prev = c; prev_ctl = applied; skipped = 0; missed = 0
           }
        :: else -> apply(x)               /* T5 of a marker */
        fi;
        c++                               /* T6 */
     fi;
next:
     n = 0; t = 0; x = 0
  od
}
