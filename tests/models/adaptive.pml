/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What src/sync/rwsem*.c adds to model.pml, under the same memory model (x86-TSO, one store buffer per
 * reader; the stores of writers are read-modify-writes, which drain at once):
 *   - three states: OPEN (readers pass with plain accesses), FENCED (readers fence, the next writer issues
 *     no barrier), WRITER; a reader takes FENCED back to OPEN; a writer leaves either behind;
 *   - sleepers are announced: a bit in state for readers, a bit in wseq for the writer, so that nobody
 *     makes a system call to wake no one;
 *   - batches: the write lock is handed to a queued writer while state stays WRITER, with neither barrier
 *     nor scan;
 *   - the gate: after a batch no writer starts before the readers whom it kept waiting were in;
 *   - giving up (-DGIVE_UP): writers and readers whose time is over, and -DREFUSED: a barrier that the
 *     kernel refuses.
 *
 * Checked: exclusion (assert), no lost wake-up (invalid end state), and the gate's promise (assert on
 * overdue).
 *
 * Must fail, each alone: NO_BARRIER, ENTRY_UNFENCED, EXIT_UNFENCED, NO_GATE, HAND_OVER_OPEN, SILENT_SLEEP,
 * LATE_SLEEP_BIT, WAKE_NONE (with -DGIVE_UP), REFUSED_FENCED (with -DREFUSED).
 */
#ifndef NR
#define NR 2		/* readers */
#endif
#ifndef NW
#define NW 1		/* writers */
#endif
#ifndef RL
#define RL 2		/* rounds of a reader */
#endif
#ifndef WL
#define WL 2		/* rounds of a writer */
#endif

#define OPEN 0
#define WRITER 1
#define SLEEPERS 2
#define FENCED 4

#define SB 3		/* depth of a store buffer */
typedef sbuf { byte v[SB]; byte n; };
sbuf sb[NR];		/* a reader's plain stores all go to its slot */

byte state = FENCED;
byte slot[NR];
byte wseq;		/* bit 0: the writer sleeps; counts in steps of 2, modulo 16 */
byte waiting;		/* readers that met a writer */
bit  gate_bit;		/* the top bit of waiting */

bit  wl;		/* wlock is held */
byte queued;		/* writers in the queue */
byte grant;		/* 0, FRESH or HANDED: to the one writer that queues (NW <= 2) */
#define FRESH 1
#define HANDED 2

/* who sleeps, and wake-up tokens */
bit  w_asleep, w_token, g_asleep, g_token;
bit  r_asleep[NR], r_token[NR];

/* ghosts */
byte in_r, in_w;
bit  in_gate[NR], overdue[NR];

inline drain1(p)
{
	slot[p] = sb[p].v[0];
	sb[p].v[0] = sb[p].v[1]; sb[p].v[1] = sb[p].v[2]; sb[p].v[2] = 0;
	sb[p].n = sb[p].n - 1
}

inline drain(p)
{
	do
	:: sb[p].n > 0 -> drain1(p)
	:: else -> break
	od
}

inline store_slot(p, val)
{
	atomic { sb[p].n < SB -> sb[p].v[sb[p].n] = val; sb[p].n = sb[p].n + 1 }
}

/* a full fence: the exchange of the slot */
inline exchange_slot(p, val) { d_step { drain(p); slot[p] = val } }

inline kick(p)
{
	d_step {
		drain(p);
		if
		:: (wseq & 1) && w_asleep -> w_asleep = 0; w_token = 1
		:: else
		fi;
		wseq = (wseq + 2) % 16
	}
}

inline wake_all(j)
{
	d_step {
		j = 0;
		do
		:: j < NR -> if :: r_asleep[j] -> r_asleep[j] = 0; r_token[j] = 1 :: else fi; j = j + 1
		:: else -> break
		od; j = 0
	}
}

/* X1 and X2 */
inline open_to_readers(new, old, j)
{
	d_step { old = state; state = new;
		j = 0;
		do
		:: j < NR -> if :: in_gate[j] -> overdue[j] = 1 :: else fi; j = j + 1
		:: else -> break
		od; j = 0
	}
	if
#ifndef WAKE_NONE
	:: old & SLEEPERS -> wake_all(j)
#endif
	:: else
	fi
}

active proctype drainer()
{
end:	do
	:: atomic { sb[0].n > 0 -> drain1(0) }
#if NR > 1
	:: atomic { sb[1].n > 0 -> drain1(1) }
#endif
	od
}

proctype reader(byte me)
{
	byte s, round;

	do
	:: round < RL ->
		store_slot(me, 1);
		s = state;
		if
		:: s == OPEN -> goto locked
		:: else
		fi;
		/* not open: once more with a fence */
#ifndef ENTRY_UNFENCED
		exchange_slot(me, 1);
#endif
		s = state;
		if
		:: !(s & WRITER) ->
			if
			:: skip
			:: atomic { state == FENCED -> state = OPEN }
			fi;
			goto locked
		:: else
		fi;
		store_slot(me, 0);
		kick(me);
		d_step { drain(me); waiting = waiting + 1; in_gate[me] = 1 }
again:		s = state;
		if
		:: !(s & WRITER) ->
			exchange_slot(me, 1);
			s = state;
			if
			:: !(s & WRITER) -> goto leave
			:: else -> store_slot(me, 0); kick(me); goto again
			fi
#ifdef GIVE_UP
		:: s & WRITER ->
			d_step {
				drain(me); waiting = waiting - 1; in_gate[me] = 0; overdue[me] = 0;
				if
				:: waiting == 0 && gate_bit && g_asleep -> g_asleep = 0; g_token = 1
				:: else
				fi
			}
			goto next
#endif
		:: s & WRITER -> skip
		fi;
#ifndef SILENT_SLEEP
		if
		:: !(s & SLEEPERS) ->
			atomic {
				drain(me);
				if
				:: state == s -> state = s | SLEEPERS
				:: else -> goto again
				fi
			}
		:: else
		fi;
		atomic {
			drain(me);
			if
			:: state == (WRITER | SLEEPERS) -> r_asleep[me] = 1
			:: else -> goto again
			fi
		}
#else
		atomic {
			drain(me);
			if
			:: state == s -> r_asleep[me] = 1
			:: else -> goto again
			fi
		}
#endif
		atomic { r_token[me] -> r_token[me] = 0 }
		goto again;
leave:		skip;
		d_step {
			drain(me); waiting = waiting - 1; in_gate[me] = 0; overdue[me] = 0;
			if
			:: waiting == 0 && gate_bit && g_asleep -> g_asleep = 0; g_token = 1
			:: else
			fi
		}
locked:		in_r = in_r + 1;
		assert(in_w == 0);
		in_r = in_r - 1;
		/* unlock */
		store_slot(me, 0);
		s = state;
		if
		:: s == OPEN -> goto next
		:: else
		fi;
		if
		:: !(s & WRITER) ->
#ifndef EXIT_UNFENCED
			exchange_slot(me, 0);
#endif
			s = state;
			if
			:: !(s & WRITER) -> goto next
			:: else
			fi
		:: else
		fi;
		kick(me);
next:		s = 0;
		round = round + 1
	:: else -> break
	od
}

proctype writer()
{
	byte k, q, any, was, old, round;

	do
	:: round < WL ->
		/* W0 */
		atomic {
			if
			:: !wl -> wl = 1; goto fresh
			:: else -> queued = queued + 1
			fi
		}
		atomic {
			if
			:: grant == FRESH -> grant = 0; goto fresh
			:: grant == HANDED -> grant = 0; goto locked
			fi
		}
fresh:		skip;
#ifndef NO_GATE
gate:		atomic {
			if
			:: waiting == 0 -> gate_bit = 0; goto gone
			:: else -> q = waiting
			fi
		}
		atomic {
			if
			:: waiting == q -> gate_bit = 1
			:: else -> goto gate
			fi
		}
		atomic {
			if
			:: waiting == q -> g_asleep = 1
			:: else -> goto gate
			fi
		}
		atomic { g_token -> g_token = 0 }
		goto gate;
gone:		skip;
#endif
		/* W1 */
		d_step {
			was = state; state = WRITER; k = 0;
			do
			:: k < NR -> assert(!overdue[k]); k = k + 1
			:: else -> break
			od; k = 0
		}
		/* W2 */
		if
		:: was & FENCED -> skip
#ifndef NO_BARRIER
		:: !(was & FENCED) ->
			d_step { k = 0;
				do
				:: k < NR -> drain(k); k = k + 1
				:: else -> break
				od; k = 0 }
#else
		:: !(was & FENCED) -> skip
#endif
#ifdef REFUSED
		:: !(was & FENCED) ->
#ifdef REFUSED_FENCED
			was = FENCED;
#endif
			open_to_readers(was, old, k);
			goto release
#endif
		fi;
scan:		skip;
#ifdef LATE_SLEEP_BIT
		q = wseq;
#else
		d_step { wseq = wseq | 1; q = wseq }
#endif
		any = 0; k = 0;
		do
		:: k < NR -> any = any | slot[k]; k = k + 1
		:: else -> break
		od; k = 0;
		if
		:: any == 0 -> wseq = wseq & 14; goto locked
#ifdef GIVE_UP
		:: any != 0 -> wseq = wseq & 14; open_to_readers(FENCED, old, k); goto release
#endif
		:: any != 0 -> skip
		fi;
#ifdef LATE_SLEEP_BIT
		d_step { wseq = wseq | 1; q = wseq }
#endif
		atomic {
			if
			:: wseq == q -> w_asleep = 1
			:: else -> goto scan
			fi
		}
		atomic { w_token -> w_token = 0 }
		goto scan;
locked:		in_w = in_w + 1;
		assert(in_w == 1 && in_r == 0);
		in_w = in_w - 1;
		/* hand over, or open */
		if
#ifdef HAND_OVER_OPEN
		:: queued > 0 ->
			open_to_readers(FENCED, old, k);
			atomic { queued = queued - 1; grant = HANDED }
			goto next
#else
		:: atomic { queued > 0 -> queued = queued - 1; grant = HANDED }
			goto next
#endif
		:: open_to_readers(FENCED, old, k)
		:: open_to_readers(OPEN, old, k)
		fi;
release:	atomic {
			if
			:: queued > 0 -> queued = queued - 1; grant = FRESH
			:: else -> wl = 0
			fi
		}
next:		was = 0; old = 0; q = 0; any = 0;
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
		:: i < NR + NW && i >= NR -> run writer(); i++
		:: i >= NR + NW -> break
		od
	}
}
