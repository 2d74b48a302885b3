/* SPDX-License-Identifier: MIT
 *
 * Who sleeps, and who wakes whom: publish (P4, P5), the consumer's sleep, the full wait, joining, leaving, death, interrupt.
 * Slots and tags stand in take.pml. Here the ring is one number, `head`: the last frame whose tag is stored.
 *
 * There is no watchdog: a lost wake-up is a deadlock, which the search reports as an invalid end state.
 *
 * Store buffers are explicit for the producer and for each consumer: a store goes through a FIFO that is emptied at any time.
 * "seq_cst" is a store followed by FENCE; a read-modify-write empties the buffer first; so does entering FUTEX_WAIT.
 *
 * Options:   CONSUMERS=1|2  0 gates, 1 takes the latest
 *            JOINS     consumer 0 joins while the producer publishes
 *            ENDS      consumer 0 dies at any step, or leaves; the monitor drops it from the table
 *            INTERRUPT consumer 0 stops taking for ever, and Producer::interrupt() must end the full wait
 *            DEMOTES   the producer demotes consumer 0 (and tells it), and lets it gate again; consumer 0 keeps two frames
 *            LOANER    a second thread waits for room at the same page
 * Mutations: NO_P5_FENCE WAITING_PLAIN_STORE WAIT_NO_RECHECK SAME_TICKET WORD_READ_LATE CLEAR_FLAG_INSTEAD_OF_TICKET
 *            TABLE_BEFORE_FENCE WELCOME_BEFORE_TABLE FLAG_PLAIN_STORE FULL_NO_RELOAD CURSOR_PLAIN_STORE T6_LOOK_FIRST
 *            FLAG_AFTER_UNLOCK NO_WAKE_ON_DROP DROP_WAKES_ONLY_IF_SET INTERRUPT_CHECK_FIRST LOOK_ONLY_IF_TOLD_GATING WAKE_ONE
 *            WAITER_CLEARS_FLAG FLAG_INSTEAD_OF_FULL_TICKET
 */
#ifndef CONSUMERS
#define CONSUMERS 1
#endif
#ifndef LAST
#define LAST 4
#endif
#ifndef BURST
#define BURST 2
#endif
#define LATEST 1

/* shared memory */
byte head;                 /* written by the producer */
byte cursor[2] = 1;        /* written by the consumer */
byte waiting[2];           /* ticket, 0 = awake; written by the consumer */
byte wake[2];              /* wake word: written by the producer */
byte producer_waiting[2];  /* ticket of a full wait, 0 = nobody; set by the producer, cleared by those who wake it */

/* the producer's process: consumer table, reclaim mutex, what the monitor does to them */
#ifdef JOINS
#define AT_START 2
#else
#define AT_START 3
#endif
byte table = AT_START;     /* bit n: consumer n */
bool mutex, gating = true, interrupted;
byte start = 1;            /* of consumer 0: it stands in WELCOME */
bool welcomed = AT_START & 1; /* WELCOME has reached consumer 0 */
byte full_ticket;          /* number of the last full wait, of any thread */
bool told_demoted;         /* DEMOTED has reached consumer 0 */

/* the kernel: who sleeps on which futex */
bool asleep[2];            /* consumers, each on its wake word */
bool full_asleep[2];       /* threads of the producer on producer_waiting[0]: 0 publishes, 1 lends */

/* ghosts */
bool dying, gone, stands_still;

/* ---- store buffers: 0, 1 = consumers, 2 = producer ---- */
#define PRODUCER 2
mtype = { HEAD, CURSOR, WAITING, FULL };
chan sb[3] = [2] of { mtype, byte };
#define FENCE(t) empty(sb[t])
proctype drain(byte t) {
  byte v;
end:
  do
  :: atomic { sb[t]?HEAD,v -> head = v; v = 0 }
  :: atomic { sb[t]?CURSOR,v -> cursor[t] = v; v = 0 }
  :: atomic { sb[t]?WAITING,v -> waiting[t] = v; v = 0 }
  :: atomic { sb[t]?FULL,v -> producer_waiting[0] = v; v = 0 }
  od
}

#define LOCK atomic { !mutex -> mutex = true }
#define UNLOCK mutex = false
#define IN_TABLE(t, n) ((t) & (1 << (n)))

inline wake_full() {
#ifdef WAKE_ONE
  atomic { if :: full_asleep[0] -> full_asleep[0] = false :: full_asleep[1] -> full_asleep[1] = false :: else fi }
#else
  d_step { full_asleep[0] = false; full_asleep[1] = false }
#endif
}

/* T6, release: look at producer-waiting; clear it, wake. */
inline look_at_full(me) {
  if
  :: producer_waiting[me] != 0 -> producer_waiting[me] = 0; wake_full()
  :: else
  fi
}

/* One round of a full wait, entered with the mutex held and no room; `who` is the producer's thread. */
inline full_wait(who, need) {
#ifdef FLAG_AFTER_UNLOCK
  UNLOCK;
#endif
#ifdef FLAG_INSTEAD_OF_FULL_TICKET
  mine = 1;
#else
  atomic { full_ticket = full_ticket % 7 + 1; mine = full_ticket }
#endif
  if
  :: who == 0 -> sb[PRODUCER]!FULL,mine
  :: else -> producer_waiting[0] = mine   /* the lending thread's buffer is not modelled */
  fi;
#ifndef FLAG_PLAIN_STORE
  FENCE(PRODUCER);
#endif
#ifndef FLAG_AFTER_UNLOCK
  UNLOCK;
#endif
  if
#ifndef FULL_NO_RELOAD
  :: need <= cursor[0] + BURST - 1 ->
#ifdef WAITER_CLEARS_FLAG
     producer_waiting[0] = 0
#else
     skip      /* the flag stays set: the next look costs one needless wake, but another thread may rely on it */
#endif
#endif
#ifndef INTERRUPT_CHECK_FIRST
  :: interrupted
#endif
  :: else ->
     FENCE(PRODUCER);  /* entering the kernel */
     if
     :: atomic { producer_waiting[0] == mine -> full_asleep[who] = true }
        !full_asleep[who]
     :: producer_waiting[0] != mine
     fi
  fi;
  mine = 0
}

#define ROOM(need) (!IN_TABLE(table, 0) || !gating || need <= cursor[0] + BURST - 1)

active proctype producer() {
  byte s = 1, n, w, known, mine, remembered[2];
  do
  :: s > LAST || interrupted -> break
  :: else ->
     LOCK;
     if /* P1 */
     :: ROOM(s) -> UNLOCK
     :: else ->
#ifdef DEMOTES
        if
        :: gating = false; told_demoted = true; UNLOCK; goto again
        :: skip
        fi;
#endif
        full_wait(0, s);
        goto again
     fi;
#ifdef TABLE_BEFORE_FENCE
     known = table;
#endif
     sb[PRODUCER]!HEAD,s;      /* P4 */
#ifndef NO_P5_FENCE
     FENCE(PRODUCER);          /* P5 */
#endif
#ifndef TABLE_BEFORE_FENCE
     known = table;
#endif
     n = 0;
     do
     :: n < CONSUMERS && IN_TABLE(known, n) ->
        w = waiting[n];
        if
#ifdef CLEAR_FLAG_INSTEAD_OF_TICKET
        :: w != 0 ->
#else
        :: w != 0 && w != remembered[n] -> remembered[n] = w;
#endif
           FENCE(PRODUCER);
           wake[n]++;
           assert(wake[n] <= w);   /* at most one wake per ticket */
           asleep[n] = false   /* FUTEX_WAKE */
        :: else
        fi;
        n++
     :: n < CONSUMERS && !IN_TABLE(known, n) -> n++
     :: n == CONSUMERS -> break
     od;
     atomic { n = 0; w = 0; known = 0 }
     s++;
#ifdef DEMOTES
     if :: !gating && cursor[0] >= s - BURST / 2 -> gating = true :: else fi;
#endif
again:
     skip
  od
}

inline sleep_until_next(me, c) {
  atomic { word = wake[me]; ticket++ }
#ifdef SAME_TICKET
  ticket = 1;
#endif
  sb[me]!WAITING,ticket;
#ifndef WAITING_PLAIN_STORE
  FENCE(me);
#endif
  if
#ifndef WAIT_NO_RECHECK
  :: head >= c
#endif
  :: else ->
#ifdef WORD_READ_LATE
     word = wake[me];
#endif
     FENCE(me);                /* entering the kernel */
     if
     :: atomic { wake[me] == word -> asleep[me] = true }
        !asleep[me]
     :: wake[me] != word
     fi
  fi;
  sb[me]!WAITING,0;
  word = 0
}

proctype consumer(byte me) {
  byte c = 1, word, ticket;
  {
  if :: me == 0 -> welcomed; c = start :: else fi;
  do
  :: c > LAST -> break
#ifdef ENDS
  :: me == 0 -> break          /* close(): LEAVE */
#endif
#ifdef INTERRUPT
  :: me == 0 -> stands_still = true; break
#endif
  :: c <= LAST ->
     if
     :: head >= c ->           /* T1..T5 */
        atomic { if :: me == LATEST -> c = head :: else fi; c++ }
#ifdef T6_LOOK_FIRST
        look_at_full(me);
#endif
#ifdef CURSOR_PLAIN_STORE
        sb[me]!CURSOR,c;
#else
        FENCE(me);
        cursor[me] = c;        /* T6: exchange */
#endif
#ifndef T6_LOOK_FIRST
#ifdef LOOK_ONLY_IF_TOLD_GATING
        if :: !told_demoted -> look_at_full(me) :: else fi
#else
        look_at_full(me)
#endif
#endif
     :: else -> sleep_until_next(me, c)
     fi
  od
  } unless { dying && me == 0 };
  /* The kernel takes a dying process's memory down, what it stored included, before the monitor sees the hang-up. */
  atomic { FENCE(me) -> asleep[me] = false; gone = gone || me == 0 }
}

#ifdef LOANER
active proctype loaner() {
  byte mine;
again:
  LOCK;
  if
  :: ROOM(LAST) -> UNLOCK
  :: else -> full_wait(1, LAST); goto again
  fi
}
#endif

#ifdef JOINS
/* Under the reclaim mutex; WELCOME may be queued before, but not leave before the table is published. */
active proctype join() {
  LOCK;
  atomic { start = head + 1; cursor[0] = start }
#ifdef WELCOME_BEFORE_TABLE
  welcomed = true;
  table = 3;
#else
  table = 3;
  welcomed = true;
#endif
  UNLOCK
}
#endif

#ifdef ENDS
active proctype death() {
end:
  dying = true
}
active proctype monitor() {
end:
  gone && IN_TABLE(table, 0);
  LOCK;
  table = table & 2;
  UNLOCK;
#ifdef DROP_WAKES_ONLY_IF_SET
  look_at_full(0)
#else
#ifndef NO_WAKE_ON_DROP
  /* Whatever the flag says: the consumer may have died between clearing it and its wake. */
  producer_waiting[0] = 0;
  wake_full()
#endif
#endif
}
#endif

#ifdef INTERRUPT
active proctype interrupt() {
end:
  stands_still;
  interrupted = true;
  producer_waiting[0] = 0;
  wake_full()
}
#endif

init {
  atomic {
    run consumer(0);
    run drain(0);
    run drain(PRODUCER);
#if CONSUMERS > 1
    run consumer(1);
    run drain(1)
#endif
  }
}
