/** All handlers. An operation of the contract without a handler does not compile. */
import { ok } from '../../contract/result.ts'
import { describeApi } from '../../contract/openapi/openapi.ts'
import type { ResponsePorts } from '../../gateway/dialect/response.ts'
import type { Gateway } from '../../gateway/gateway.ts'
import type { Handlers } from '../http/handler.ts'
import { accountHandlers } from './account.ts'
import { apiKeyHandlers } from './api-key.ts'
import { auditHandlers } from './audit.ts'
import { baseImageHandlers } from './base-image.ts'
import { batchHandlers } from './batch.ts'
import { billingHandlers } from './billing.ts'
import { budgetHandlers } from './budget.ts'
import { autoTopUpHandlers } from './auto-top-up.ts'
import { paymentHandlers } from './payment.ts'
import { payoutHandlers } from './payout.ts'
import { catalogHandlers } from './catalog.ts'
import { clusterHandlers } from './cluster.ts'
import { costHandlers } from './cost.ts'
import { economicsHandlers } from './economics.ts'
import { driverAuditHandlers } from './driver-audit.ts'
import { deviceLoginHandlers } from './device-login.ts'
import { oauthHandlers } from './oauth.ts'
import { eventHandlers } from './event.ts'
import { factorHandlers } from './factor.ts'
import { fileHandlers } from './file.ts'
import { groupHandlers } from './group.ts'
import { hostHandlers } from './host.ts'
import { invitationHandlers } from './invitation.ts'
import { invoiceHandlers } from './invoice.ts'
import { joinTokenHandlers } from './join-token.ts'
import { jobHandlers } from './job.ts'
import { jobScheduleHandlers } from './job-schedule.ts'
import { managedDeploymentHandlers } from './managed-deployment.ts'
import { marginHandlers } from './margin.ts'
import { marketplaceOrderHandlers } from './marketplace-order.ts'
import { marketplaceSearchHandlers } from './marketplace-search.ts'
import { marketplaceHandlers } from './marketplace.ts'
import { modelHandlers } from './model.ts'
import { notificationHandlers } from './notification.ts'
import { operatorAccountHandlers } from './operator-account.ts'
import { operatorFleetHandlers } from './operator-fleet.ts'
import { operatorMoneyHandlers } from './operator-money.ts'
import { onDemandRentalHandlers } from './on-demand-rental.ts'
import { operatorPersonHandlers } from './operator-person.ts'
import { ssoHandlers } from './sso.ts'
import { operatorRentalHandlers } from './operator-rental.ts'
import { operatorSummaryHandlers } from './operator-summary.ts'
import { operatorVolumeHandlers } from './operator-volume.ts'
import { personHandlers } from './person.ts'
import { placementReportHandlers } from './placement-report.ts'
import { portHandlers } from './port.ts'
import { priceBookHandlers } from './price-book.ts'
import { providerBillHandlers } from './provider-bill.ts'
import { providerHandlers } from './provider.ts'
import { rentalMetricsHandlers } from './rental-metrics.ts'
import { rentalOptionHandlers } from './rental-option.ts'
import { rentalPowerHandlers } from './rental-power.ts'
import { rentalVolumeHandlers } from './rental-volume.ts'
import { rentalHandlers } from './rental.ts'
import { requestLogHandlers } from './request-log.ts'
import { resealHandlers } from './reseal.ts'
import { secretHandlers } from './secret.ts'
import { messageBatchHandlers } from './message-batch.ts'
import { messageHandlers } from './message.ts'
import { responseHandlers } from './response.ts'
import { servedModelHandlers } from './served-model.ts'
import { sshKeyHandlers } from './ssh-key.ts'
import { statementHandlers } from './statement.ts'
import { storageOptionHandlers } from './storage-option.ts'
import { supplyHandlers } from './supply.ts'
import { templateHandlers } from './template.ts'
import { termsHandlers } from './terms.ts'
import { trafficHandlers } from './traffic.ts'
import { volumeHandlers } from './volume.ts'
import { webhookHandlers } from './webhook.ts'

let v2: Record<string, unknown> | undefined

const moneyHandlers = {
  ...billingHandlers,
  ...statementHandlers,
  ...invoiceHandlers,
  ...costHandlers,
  ...budgetHandlers,
  ...paymentHandlers,
  ...autoTopUpHandlers,
  ...payoutHandlers,
}

const peopleHandlers = {
  ...accountHandlers,
  ...personHandlers,
  ...factorHandlers,
  ...termsHandlers,
  ...deviceLoginHandlers,
  ...oauthHandlers,
  ...invitationHandlers,
}

export function makeHandlers(
  gateway: Pick<Gateway, 'catalog' | 'whenKnown' | 'countTokens'>,
  responses: ResponsePorts,
): Handlers {
  return {
    getOpenApi: async () => ok((v2 ??= describeApi('v2'))),
    ...rentalHandlers,
    ...rentalOptionHandlers,
    ...onDemandRentalHandlers,
    ...portHandlers,
    ...rentalMetricsHandlers,
    ...rentalPowerHandlers,
    ...groupHandlers,
    ...volumeHandlers,
    ...storageOptionHandlers,
    ...rentalVolumeHandlers,
    ...moneyHandlers,
    ...catalogHandlers,
    ...requestLogHandlers,
    ...marketplaceHandlers,
    ...marketplaceOrderHandlers,
    ...marketplaceSearchHandlers,
    ...peopleHandlers,
    ...operatorPersonHandlers,
    ...ssoHandlers,
    ...sshKeyHandlers,
    ...apiKeyHandlers,
    ...secretHandlers,
    ...jobHandlers,
    ...jobScheduleHandlers,
    ...managedDeploymentHandlers,
    ...economicsHandlers,
    ...templateHandlers,
    ...eventHandlers,
    ...webhookHandlers,
    ...notificationHandlers,
    ...supplyHandlers,
    ...operatorAccountHandlers,
    ...auditHandlers,
    ...operatorMoneyHandlers,
    ...operatorFleetHandlers,
    ...driverAuditHandlers,
    ...resealHandlers,
    ...operatorVolumeHandlers,
    ...operatorRentalHandlers,
    ...priceBookHandlers,
    ...modelHandlers,
    ...operatorSummaryHandlers,
    ...trafficHandlers,
    ...fileHandlers,
    ...batchHandlers,
    ...hostHandlers,
    ...placementReportHandlers,
    ...baseImageHandlers,
    ...joinTokenHandlers,
    ...clusterHandlers,
    ...providerHandlers,
    ...marginHandlers,
    ...providerBillHandlers,
    ...servedModelHandlers(gateway),
    ...messageHandlers(gateway),
    ...messageBatchHandlers(gateway),
    ...responseHandlers(gateway, responses),
  }
}
