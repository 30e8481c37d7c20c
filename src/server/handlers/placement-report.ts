/** Explains for operators which machine an order would get, and why. */
import { ok } from '../../contract/result.ts'
import { explainPlacement } from '../../app/order/placement-report.ts'
import type { OfferHistory } from '../../domain/offer-history.ts'
import { whyLater, type PlacementMachine } from '../../domain/placement.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import type { Handlers } from '../http/handler.ts'

export const placementReportHandlers = {
  explainPlacement: async (app, { body }) => {
    const { candidates, rejected, ...report } = await explainPlacement(app, body)
    return ok({
      ...report,
      candidates: candidates.map((machine, at) => candidateOnWire(machine, at === 0 ? undefined : candidates[0])),
      rejected: rejected.map(({ machine, reason, detail }) => ({
        machineId: machine.machineId,
        driver: machine.driver,
        reason,
        detail,
      })),
    })
  },
} satisfies Partial<Handlers>

type Candidate = ResponseOf<Api['explainPlacement']>['candidates'][number]

function candidateOnWire(machine: PlacementMachine, first: PlacementMachine | undefined): Candidate {
  const { machineId, driver, clusterName, gpusFree, gpusTotal, cost, preference, history } = machine
  return {
    machineId,
    driver,
    clusterName,
    gpusFree,
    gpusTotal,
    order: first === undefined ? 'first' : whyLater(first, machine),
    costPerGpuHourUsd: cost,
    preference,
    history: history === null ? null : historyOnWire(history),
  }
}

function historyOnWire({
  made: orders,
  noCapacity,
  failed,
  startMs,
  lowest,
  highest,
}: OfferHistory): Candidate['history'] {
  return {
    made: orders,
    noCapacity,
    failed,
    startSeconds: startMs === null ? null : Math.round(startMs / 1_000),
    lowest,
    highest,
  }
}
