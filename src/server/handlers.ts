/** All handlers. An operation of the contract without one does not compile. */
import { ok } from '../contract/result.ts'
import { describeApi } from '../contract/openapi.ts'
import type { Gateway } from '../gateway/gateway.ts'
import type { Handlers } from './handler.ts'
import { accountHandlers } from './handlers/account.ts'
import { billingHandlers } from './handlers/billing.ts'
import { budgetHandlers } from './handlers/budget.ts'
import { clusterHandlers } from './handlers/cluster.ts'
import { costHandlers } from './handlers/cost.ts'
import { eventHandlers } from './handlers/event.ts'
import { hostHandlers } from './handlers/host.ts'
import { marketplaceHandlers } from './handlers/marketplace.ts'
import { marketplaceSearchHandlers } from './handlers/marketplace-search.ts'
import { modelHandlers } from './handlers/model.ts'
import { notificationHandlers } from './handlers/notification.ts'
import { operatorAccountHandlers } from './handlers/operator-account.ts'
import { operatorFleetHandlers } from './handlers/operator-fleet.ts'
import { portHandlers } from './handlers/port.ts'
import { providerBillHandlers } from './handlers/provider-bill.ts'
import { providerHandlers } from './handlers/provider.ts'
import { rentalPowerHandlers } from './handlers/rental-power.ts'
import { rentalHandlers } from './handlers/rental.ts'
import { rentalMetricsHandlers } from './handlers/rental-metrics.ts'
import { rentalVolumeHandlers } from './handlers/rental-volume.ts'
import { requestLogHandlers } from './handlers/request-log.ts'
import { servedModelHandlers } from './handlers/served-model.ts'
import { secretHandlers } from './handlers/secret.ts'
import { supplyHandlers } from './handlers/supply.ts'
import { economicsHandlers } from './handlers/economics.ts'
import { managedDeploymentHandlers } from './handlers/managed-deployment.ts'
import { templateHandlers } from './handlers/template.ts'
import { operatorSummaryHandlers } from './handlers/operator-summary.ts'
import { trafficHandlers } from './handlers/traffic.ts'
import { volumeHandlers } from './handlers/volume.ts'

let v2: Record<string, unknown> | undefined

export function makeHandlers(gateway: Pick<Gateway, 'catalog' | 'whenKnown'>): Handlers {
  return {
    getOpenApi: async () => ok((v2 ??= describeApi('v2'))),
    ...rentalHandlers,
    ...portHandlers,
    ...rentalMetricsHandlers,
    ...rentalPowerHandlers,
    ...volumeHandlers,
    ...rentalVolumeHandlers,
    ...billingHandlers,
    ...costHandlers,
    ...budgetHandlers,
    ...requestLogHandlers,
    ...marketplaceHandlers,
    ...marketplaceSearchHandlers,
    ...accountHandlers,
    ...secretHandlers,
    ...managedDeploymentHandlers,
    ...economicsHandlers,
    ...templateHandlers,
    ...eventHandlers,
    ...notificationHandlers,
    ...supplyHandlers,
    ...operatorAccountHandlers,
    ...operatorFleetHandlers,
    ...modelHandlers,
    ...operatorSummaryHandlers,
    ...trafficHandlers,
    ...hostHandlers,
    ...clusterHandlers,
    ...providerHandlers,
    ...providerBillHandlers,
    ...servedModelHandlers(gateway),
  }
}
