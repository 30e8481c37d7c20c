/** Live inference traffic over HTTP, for operators. */
import { readTraffic } from '../../app/serving/traffic.ts'
import { ok } from '../../contract/result.ts'
import type { Traffic, TrafficModel } from '../../store/request/traffic.ts'
import type { Handlers } from '../http/handler.ts'

export const trafficHandlers = {
  getTraffic: async (app, { query }) => {
    const { from, to, minutes, models } = await readTraffic(app, query.minutes)
    return ok({
      from,
      to,
      minutes: minutes.map((one) => ({ at: one.minute, ...trafficOnWire(one) })),
      models: models.map((one) => ({
        model: one.model,
        ...trafficOnWire(one),
        totalMs: quantilesOnWire(one.totalMs),
        firstByteMs: quantilesOnWire(one.firstByteMs),
      })),
    })
  },
} satisfies Partial<Handlers>

function trafficOnWire({ requests, failed, inputTokens, outputTokens, cost }: Traffic) {
  return {
    requests,
    failed,
    inputTokens: Number(inputTokens),
    outputTokens: Number(outputTokens),
    costUsd: cost,
  }
}

function quantilesOnWire(quantiles: TrafficModel['totalMs']): { p50: number; p95: number } | null {
  return quantiles === null ? null : { p50: quantiles[0], p95: quantiles[1] }
}
