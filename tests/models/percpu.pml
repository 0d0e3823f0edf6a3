/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Why the semaphore has a slot per thread, and not a counter per CPU: what sums of per-CPU counters are
 * worth when a thread may move to another CPU between any two of its steps. Memory is sequentially
 * consistent on purpose: the order of store and load is the business of model.pml; here the sum is wrong
 * although all order is perfect.
 *
 * Exactly one of (without one it passes for want of anything to check):
 *   RSEQ        test and count are one restartable step, which the writer's barrier restarts; the
 *               counters stand still while the writer sums                     must pass
 *   SPLIT       entries and exits counted apart; exits summed first            must pass
 *   SPLIT_REV   entries summed first                                           must fail
 *   ONE_SUM     one signed counter; a reader that finds a writer takes its
 *               count back on whatever CPU it is by then                       must fail
 *   RSEQ_NOBAR  as RSEQ with a plain barrier: test and count are two steps     must fail
 */
#define NCPU 2
#ifndef NR
#define NR 2
#endif
#define RL 2

short in[NCPU], out[NCPU];	/* per-CPU counters */
short slow;			/* shared counter of the slow path */
bit state;			/* 1 = a writer waits or is in */
byte inr, inw;

inline pick(c) { if :: c = 0 :: c = 1 fi }

proctype reader()
{
	byte n, c; bit fast;
	do
	:: n < RL ->
again:
#if defined(RSEQ) || defined(RSEQ_NOBAR)
#ifdef RSEQ
		atomic { pick(c);
			if
			:: state == 0 -> in[c] = in[c] + 1; fast = 1
			:: else -> fast = 0
			fi }
#else
		atomic { pick(c); fast = (state == 0 -> 1 : 0) }
		if
		:: fast -> in[c] = in[c] + 1
		:: else -> skip
		fi;
#endif
		if
		:: fast -> skip
		:: else ->	/* slow entry: shared counter, then test again */
			(state == 0);
			slow = slow + 1;
			if
			:: state == 0 -> skip
			:: else -> slow = slow - 1; goto again
			fi
		fi;
#else
		pick(c); in[c] = in[c] + 1;
		if
		:: state == 0 -> skip
		:: else -> pick(c);	/* moved meanwhile */
#ifdef ONE_SUM
			in[c] = in[c] - 1;
#else
			out[c] = out[c] + 1;
#endif
			(state == 0); goto again
		fi;
#endif
		inr++; assert(inw == 0); inr--;
#if defined(RSEQ)
		atomic { pick(c);
			if
			:: state == 0 -> in[c] = in[c] - 1
			:: else -> slow = slow - 1
			fi }
#elif defined(RSEQ_NOBAR)
		atomic { pick(c); fast = (state == 0 -> 1 : 0) }
		if
		:: fast -> in[c] = in[c] - 1
		:: else -> slow = slow - 1
		fi;
#elif defined(ONE_SUM)
		pick(c); in[c] = in[c] - 1;
#else
		pick(c); out[c] = out[c] + 1;
#endif
		n++
	:: else -> break
	od
}

proctype writer()
{
	short s, t; byte r;
	do
	:: r < 2 ->
		state = 1;
#if defined(RSEQ) || defined(RSEQ_NOBAR)
		s = in[0]; in[0] = 0;
		s = s + in[1]; in[1] = 0;
		slow = slow + s;
		(slow == 0);
#else
scan:
#ifdef SPLIT
		t = out[0]; t = t + out[1];
		s = in[0]; s = s + in[1];
#elif defined(SPLIT_REV)
		s = in[0]; s = s + in[1];
		t = out[0]; t = t + out[1];
#else
		s = in[0]; s = s + in[1]; t = 0;
#endif
		if
		:: s == t -> skip
		:: else -> goto scan
		fi;
#endif
		inw++; assert(inr == 0); inw--;
		state = 0;
		r++
	:: else -> break
	od
}

init { byte i; atomic { do :: i < NR -> run reader(); i++ :: else -> break od; run writer() } }
