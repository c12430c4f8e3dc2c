/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The steps of corec_protocol.h in Promela, for SPIN: every interleaving of a NIC and CONSUMERS pollers that poll without end. Each access to shared
 * memory is a step, in program order; Relacy checks weaker orders (corec_relacy.cc). A buffer is the number of the frame in it; a fresh one
 * has 0. Any poll may get fewer buffers than it asks for.
 *
 * Invariants: a frame comes once, in a batch of consecutive frames; TAIL moves over swapped descriptors only; and when no poll is under way,
 * everything reserved has been returned: no core has to poll again before the NIC gets its descriptors back.
 *
 * -DUNBOUNDED, -DLATE_CLEAR and -DCOUNT_BITS=N build the header's variants (COREC_UNBOUNDED ...). With -DNO_PUT_BACK a flag of a later wrap
 * is taken for TAIL's. With -DNO_LOOK_AFTER a core that puts such a flag back does not look at TAIL again.
 */
#ifndef CONSUMERS
#define CONSUMERS 2
#endif
#ifndef PLACES
#define PLACES 2
#endif
#ifndef FRAMES
#define FRAMES 6
#endif
#ifndef BURST
#define BURST 2
#endif
#ifndef COUNT_BITS
#define COUNT_BITS 7 /* more than FRAMES + PLACES takes: a count that never wraps */
#endif

#define COUNTS         (1 << COUNT_BITS)
#define LATER(c, n)    (((c) + (n)) & (COUNTS - 1))
#define AHEAD(a, b)    (((b) - (a) + COUNTS) & (COUNTS - 1))
#define CREDITS(a, b)  (AHEAD(a, b) < COUNTS / 2 -> AHEAD(a, b) : 0)
#define PLACE(c)       ((c) & (PLACES - 1))

byte taken, tail = PLACES, doorbell = PLACES;
bit filled[PLACES];
byte buffer[PLACES], done[PLACES];
bit came[FRAMES + 1];
byte head;    /* frames that the NIC has filled */
byte polling; /* consumers in a poll */

active proctype nic()
{
	do
	:: head == FRAMES -> break
	:: head < FRAMES && AHEAD(head & (COUNTS - 1), doorbell) > 0 && AHEAD(head & (COUNTS - 1), doorbell) < COUNTS / 2 ->
		buffer[PLACE(head)] = head + 1;
		d_step { filled[PLACE(head)] = 1; head++ }
	od
}

/* By the consumer that owns the batch of n at TAIL. */
inline move_tail(from, n)
{
	d_step {
		assert(AHEAD(doorbell, from) == 0);
		i = 0;
		do
		:: i < n ->
			assert(!filled[PLACE(from + i)] && buffer[PLACE(from + i)] == 0);
			i++
		:: else -> break
		od;
		doorbell = LATER(from, n)
	}
	tail = LATER(from, n)
}

/* Moves TAIL over the batch of n at `to`. */
inline move_over_marked()
{
	move_tail(now, n);
#ifdef LATE_CLEAR
	done[PLACE(to)] = 0;
#endif
	to = LATER(now, n)
}

active [CONSUMERS] proctype consumer()
{
	byte first, most, n, i, frame, before, to, now;

	do
	:: d_step { polling++; n = 0; i = 0; frame = 0; before = 0; to = 0; now = 0 }

		first = taken;
#ifdef UNBOUNDED
		most = BURST;
#else
		d_step {
			most = CREDITS(first, tail);
			most = (most > BURST -> BURST : most)
		}
#endif
		do
		:: n < most && filled[PLACE(first + n)] -> n++
		:: else -> break
		od;
		if
		:: n > 0 -> n-- /* a buffer was not to be had */
		:: skip
		fi;
		if
		:: n > 0 ->
			if
			:: atomic { taken == first -> taken = LATER(taken, n) }
				do
				:: i < n ->
					d_step {
						frame = buffer[PLACE(first + i)];
						buffer[PLACE(first + i)] = 0;
						assert(frame > 0 && !came[frame] && (before == 0 || frame == before + 1));
						came[frame] = 1;
						before = frame
					}
					filled[PLACE(first + i)] = 0;
					i++
				:: else -> break
				od;
				now = tail;
				if
				:: now == LATER(first, PLACES) -> move_tail(now, n)
				:: else -> done[PLACE(first)] = n
				fi
			:: else -> n = 0
			fi
		:: else -> skip
		fi;

		to = tail;
		do
		:: done[PLACE(to)] == 0 -> break
		:: else ->
#ifndef LATE_CLEAR
			d_step { n = done[PLACE(to)]; done[PLACE(to)] = 0 }
#else
			n = done[PLACE(to)];
#endif
			if
			:: n == 0 -> break
			:: else -> skip
			fi;
			now = tail;
#ifndef NO_PUT_BACK
			if
			:: PLACE(now) != PLACE(to) ->
				done[PLACE(to)] = n;
#ifdef NO_LOOK_AFTER
				break
#else
				to = tail
#endif
			:: else -> move_over_marked()
			fi
#else
			move_over_marked()
#endif
		od;
		skip;
		d_step {
			polling--;
			assert(polling > 0 || AHEAD(taken, tail) == PLACES)
		}
	od
}
