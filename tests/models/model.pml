/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The algorithm of src/sync/rwsem*.c with its policies expedited (every write issues its barrier) and
 * fence, under x86-TSO: each process has a store buffer, first in first out; a load looks there first,
 * newest entry first, then in memory; the buffer drains into memory at any time; a read-modify-write or a
 * fence drains the caller's buffer; membarrier drains all buffers, because between its start and its end
 * each running thread passes a full fence, and a thread that does not run passed one when it was switched
 * out.
 *
 * Checked: readers and a writer are never in together; no reader sees half a change (d1 != d2); no lost
 * wake-up (a run that ends with a process asleep is an invalid end state).
 *
 * Sizes: NR readers, NW writers, RL and WL their rounds. -DFIXED_SLOW is policy fence and must pass. Must
 * fail, each alone (run-models knows them):
 *   NO_MEMBARRIER    the writer fences itself only
 *   LATE_COUNT       the reader tests the state, then counts
 *   NO_UNLOCK_CHECK  unlock does not look for a writer
 *   SEQ_AFTER_SCAN   the writer reads the word it sleeps on after the slots
 *   BARRIER_FIRST    barrier, then the state
 *   KEEP_COUNT       a reader that finds a writer sleeps with its count in place
 *
 * Not in it: memory weaker than TSO; nesting; thread exit. Time-outs, batches and the fenced state:
 * adaptive.pml.
 */

#ifndef NR
#define NR 2		/* reader threads */
#endif
#ifndef NW
#define NW 1		/* writer threads */
#endif
#ifndef RL
#define RL 2		/* lock/unlock rounds of a reader */
#endif
#ifndef WL
#define WL 1		/* rounds of a writer */
#endif

#define NP (NR + NW)
#define SB 3		/* store buffer depth */

/* shared words, by address */
#define STATE 0		/* 0 = readers may pass, 1 = a writer is in or waits */
#define WSEQ  1		/* futex word the writer sleeps on */
#define D1    2		/* protected data, two halves */
#define D2    3
#define SLOT(i) (4 + (i))
#define NWORDS (4 + NR)

byte mem[NWORDS];

typedef sbuf { byte a[SB]; byte v[SB]; byte n; };
sbuf sb[NP];

bit wmutex;		/* writer-writer exclusion: plain mutex, sequentially consistent */
byte in_r, in_w;	/* ghosts, for the assertions only */
byte wsleep;		/* writer asleep on WSEQ */
byte rsleep;		/* number of readers asleep on STATE */
byte wwake;		/* wake-up tokens */
bit  rwake[NR];

/* one buffered store becomes visible */
inline drain1(p)
{
	mem[sb[p].a[0]] = sb[p].v[0];
	sb[p].a[0] = sb[p].a[1]; sb[p].v[0] = sb[p].v[1];
	sb[p].a[1] = sb[p].a[2]; sb[p].v[1] = sb[p].v[2];
	sb[p].a[2] = 0; sb[p].v[2] = 0;
	sb[p].n = sb[p].n - 1
}

inline drain(p)
{
	do
	:: sb[p].n > 0 -> drain1(p)
	:: else -> break
	od
}

/* plain store: blocks while the buffer is full (the drainer empties it) */
inline st(p, ad, val)
{
	atomic {
		sb[p].n < SB ->
		sb[p].a[sb[p].n] = ad; sb[p].v[sb[p].n] = val;
		sb[p].n = sb[p].n + 1
	}
}

/* plain load with store forwarding */
inline ld(p, ad, dst)
{
	d_step {
		if
		:: sb[p].n == 3 && sb[p].a[2] == ad -> dst = sb[p].v[2]
		:: !(sb[p].n == 3 && sb[p].a[2] == ad) &&
		   sb[p].n >= 2 && sb[p].a[1] == ad -> dst = sb[p].v[1]
		:: !(sb[p].n == 3 && sb[p].a[2] == ad) &&
		   !(sb[p].n >= 2 && sb[p].a[1] == ad) &&
		   sb[p].n >= 1 && sb[p].a[0] == ad -> dst = sb[p].v[0]
		:: else -> dst = mem[ad]
		fi
	}
}

inline fence(p)  { d_step { drain(p) } }

inline rmw_inc_wseq(p) { d_step { drain(p); mem[WSEQ] = (mem[WSEQ] + 1) % 16 } }

inline membarrier(k)
{
	d_step { k = 0;
		do
		:: k < NP -> drain(k); k = k + 1
		:: else -> break
		od; k = 0
	}
}

/* futex wake of the writer: no-op when it does not sleep */
inline wake_writer() { d_step { if :: wsleep -> wsleep = 0; wwake = 1 :: else fi } }

inline wake_readers(k)
{
	d_step { k = 0;
		do
		:: k < NR -> if :: rwake[k] == 0 && (rsleep & (1 << k)) -> rwake[k] = 1 :: else fi; k = k + 1
		:: else -> break
		od; rsleep = 0; k = 0
	}
}

#ifdef FIXED_SLOW
#define RFENCE(p) fence(p)
#define WBARRIER  fence(me)
#elif defined(NO_MEMBARRIER)
#define RFENCE(p) skip
#define WBARRIER  fence(me)
#else
#define RFENCE(p) skip
#define WBARRIER  membarrier(k)
#endif

/* the store buffers drain on their own */
active proctype drainer()
{
end:	do
	:: atomic { sb[0].n > 0 -> drain1(0) }
#if NP > 1
	:: atomic { sb[1].n > 0 -> drain1(1) }
#endif
#if NP > 2
	:: atomic { sb[2].n > 0 -> drain1(2) }
#endif
#if NP > 3
	:: atomic { sb[3].n > 0 -> drain1(3) }
#endif
	od
}

proctype reader(byte me)
{
	byte s, x, y, round;

	do
	:: round < RL ->
		/* ---- read lock ---- */
#ifdef LATE_COUNT
again:		ld(me, STATE, s);
		if
		:: s == 0 -> st(me, SLOT(me), 1); RFENCE(me); goto locked
		:: else -> skip
		fi;
#else
again:		st(me, SLOT(me), 1);
		RFENCE(me);
		ld(me, STATE, s);
		if
		:: s == 0 -> goto locked
		:: else -> skip
		fi;
#endif
		/* slow path: take the count back, tell the writer, sleep */
#ifndef KEEP_COUNT
		st(me, SLOT(me), 0);
#endif
		rmw_inc_wseq(me);
		wake_writer();
		/* futex wait on STATE while it is 1: compare and queue in one step */
		atomic {
			drain(me);
			if
			:: mem[STATE] == 1 -> rsleep = rsleep | (1 << me)
			:: else -> goto again
			fi
		}
		atomic { rwake[me] == 1 -> rwake[me] = 0 }
		goto again;
locked:
		in_r = in_r + 1;
		assert(in_w == 0);
		ld(me, D1, x);
		ld(me, D2, y);
		assert(x == y);
		in_r = in_r - 1;
		/* ---- read unlock ---- */
		st(me, SLOT(me), 0);
		RFENCE(me);
#ifndef NO_UNLOCK_CHECK
		ld(me, STATE, s);
		if
		:: s != 0 -> rmw_inc_wseq(me); wake_writer()
		:: else -> skip
		fi;
#endif
		x = 0; y = 0; s = 0;
		round = round + 1
	:: else -> break
	od
}

proctype writer(byte me)
{
	byte k, q, any, x, round;

	do
	:: round < WL ->
		atomic { wmutex == 0 -> wmutex = 1; drain(me) }
#ifdef BARRIER_FIRST
		WBARRIER;
		st(me, STATE, 1);
#else
		st(me, STATE, 1);
		WBARRIER;
#endif
scan:
#ifndef SEQ_AFTER_SCAN
		ld(me, WSEQ, q);
#endif
		any = 0; k = 0;
		do
		:: k < NR -> ld(me, SLOT(k), x); any = any | x; k = k + 1
		:: else -> break
		od; k = 0;
		if
		:: any == 0 -> goto locked
		:: else -> skip
		fi;
#ifdef SEQ_AFTER_SCAN
		ld(me, WSEQ, q);
#endif
		atomic {
			drain(me);
			if
			:: mem[WSEQ] == q -> wsleep = 1
			:: else -> goto scan
			fi
		}
		atomic { wwake == 1 -> wwake = 0 }
		goto scan;
locked:
		in_w = in_w + 1;
		assert(in_w == 1 && in_r == 0);
		ld(me, D1, x); st(me, D1, x + 1);
		ld(me, D2, x); st(me, D2, x + 1);
		in_w = in_w - 1;
		/* ---- write unlock: a release store, no second barrier ---- */
		st(me, STATE, 0);
		fence(me);	/* the wake is a system call */
		wake_readers(k);
		atomic { drain(me); wmutex = 0 }
		x = 0; q = 0; any = 0;
		round = round + 1
	:: else -> break
	od
}

init {
	byte i;
	atomic {
		i = 0;
		do
		:: i < NR -> run reader(i); i++
		:: i < NP && i >= NR -> run writer(i); i++
		:: i >= NP -> break
		od
	}
}
