/** Interruptible rentals: the fields of their orders, of the rentals, and of the machines that have a price for them. */
import { z } from 'zod'
import { timestamp, usdAmount } from './shared.ts'

/** The limits of a supplier's notice, and what it is unless the supplier chooses. */
export const noticeLimits = { minSeconds: 60, maxSeconds: 600, usualSeconds: 120 } as const

/** How long the stop at the end of a notice takes at most: what is killed is gone at once, and reported soon after. */
export const STOP_SECONDS = 30

export const MAX_WAIT_SECONDS = noticeLimits.maxSeconds + STOP_SECONDS

export const afterInterruptions = ['start', 'terminate'] as const
/** `start`: it starts again when GPUs are free. `terminate`: it ends. */
export type AfterInterruption = (typeof afterInterruptions)[number]

const afterInterruption = z.enum(afterInterruptions)

export const interruptionNotice = z.int().min(noticeLimits.minSeconds).max(noticeLimits.maxSeconds)

/** Fields of the order of a container. */
export const interruptionOrder = {
  interruptible: z
    .boolean()
    .optional()
    .describe(
      'At the lower price of a machine that has one: the rental is interrupted, after a notice, when an order at the full price needs its GPUs',
    ),
  afterInterruption: afterInterruption
    .optional()
    .describe(
      'What follows an interruption. `start` (default): its disk is kept at the price of a stopped rental, and it starts again when GPUs are free. `terminate`: it ends',
    ),
  maxWaitSeconds: z
    .int()
    .min(0)
    .max(MAX_WAIT_SECONDS)
    .optional()
    .describe(
      'If no GPUs are free: how long the order may wait for those of interruptible rentals, which it then interrupts. Default: 0, and it is rejected',
    ),
}

/** Fields of a rental. */
export const interruptionFields = {
  interruptible: z
    .object({
      noticeSeconds: z.int(),
      afterInterruption,
      endsAt: timestamp.nullable().describe('When it is interrupted; null: no interruption is announced'),
      free: z.boolean().describe('Whether the time since its start costs nothing, since it had just started'),
    })
    .nullable()
    .describe('null: it cannot be interrupted'),
  gpusDueAt: timestamp
    .nullable()
    .describe('Set while it waits for the GPUs of interrupted rentals: when it should have them'),
}

/** Fields of a machine on the marketplace. */
export const interruptibleOffer = z
  .object({
    pricePerGpuHourUsd: usdAmount,
    noticeSeconds: interruptionNotice,
    interruptionsLast7Days: z.int(),
  })
  .nullable()
  .describe('Price and conditions of interruptible rentals; null: it has none')

export const gpusAfterWait = z
  .object({ gpus: z.int(), waitSeconds: z.int() })
  .nullable()
  .describe(
    'GPUs that an order can have besides the free ones if it waits at most so long, while interruptible rentals are interrupted; null: none',
  )
