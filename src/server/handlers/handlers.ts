/** All handlers. An operation of the contract without one does not compile. */
import { ok } from '../../contract/result.ts'
import { describeApi } from '../../contract/openapi/openapi.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import type { Handlers } from '../http/handler.ts'
import { accountHandlers } from './account.ts'
import { billingHandlers } from './billing.ts'
import { budgetHandlers } from './budget.ts'
import { clusterHandlers } from './cluster.ts'
import { costHandlers } from './cost.ts'
import { eventHandlers } from './event.ts'
import { hostHandlers } from './host.ts'
import { marketplaceHandlers } from './marketplace.ts'
import { marketplaceSearchHandlers } from './marketplace-search.ts'
import { modelHandlers } from './model.ts'
import { notificationHandlers } from './notification.ts'
import { operatorAccountHandlers } from './operator-account.ts'
import { operatorFleetHandlers } from './operator-fleet.ts'
import { portHandlers } from './port.ts'
import { providerBillHandlers } from './provider-bill.ts'
import { providerHandlers } from './provider.ts'
import { rentalPowerHandlers } from './rental-power.ts'
import { rentalHandlers } from './rental.ts'
import { rentalMetricsHandlers } from './rental-metrics.ts'
import { rentalVolumeHandlers } from './rental-volume.ts'
import { requestLogHandlers } from './request-log.ts'
import { servedModelHandlers } from './served-model.ts'
import { secretHandlers } from './secret.ts'
import { supplyHandlers } from './supply.ts'
import { economicsHandlers } from './economics.ts'
import { managedDeploymentHandlers } from './managed-deployment.ts'
import { templateHandlers } from './template.ts'
import { operatorSummaryHandlers } from './operator-summary.ts'
import { trafficHandlers } from './traffic.ts'
import { volumeHandlers } from './volume.ts'

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
