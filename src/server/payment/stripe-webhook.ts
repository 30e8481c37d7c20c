/**
 * The address to which Stripe posts what has happened. A message is only a reason to look: its signature is checked over the raw bytes, its
 * id is written once, and the answer goes out before anything is handled.
 */
import type { FastifyInstance } from 'fastify'
import { defaultRates, limits } from '../../base/limits.ts'
import type { App } from '../../app/app.ts'
import { receiveEvent } from '../../store/payment/processor-event.ts'
import { transact } from '../../store/platform/database.ts'
import type { RateLimiter } from '../http/rate-limit.ts'

const WEBHOOK_PATH = '/stripe/webhook'

export function addStripeRoutes(server: FastifyInstance, { app, rates }: { app: App; rates: RateLimiter }): void {
  const { processor } = app
  if (processor === undefined) return
  void server.register(async (scope) => {
    scope.removeAllContentTypeParsers()
    const options = { parseAs: 'buffer', bodyLimit: limits.processorMessageBytes } as const
    scope.addContentTypeParser('*', options, (_request, body, done) => done(null, body))
    scope.post(WEBHOOK_PATH, { bodyLimit: limits.processorMessageBytes }, async (request, reply) => {
      const { body, headers } = request
      const signature = headers['stripe-signature']
      const message =
        Buffer.isBuffer(body) && typeof signature === 'string' ? processor.openMessage(body, signature) : undefined
      if (message === undefined) {
        // Only strangers are limited: after an outage Stripe itself sends thousands.
        const rate = rates.takeByAddress('address', request.ip, defaultRates.perAddressUnauthenticated)
        return reply.code(rate.allowed ? 400 : 429).send()
      }
      if (message.isLive === processor.isLive) await transact(app.database, (tx) => receiveEvent(tx, message))
      return reply.code(200).send()
    })
  })
}
