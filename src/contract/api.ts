/** The table of all operations. */
import { z } from 'zod'
import { accountEndpoints } from './account.ts'
import { accountRecoveryEndpoints } from './account-recovery.ts'
import { batchEndpoints } from './batch.ts'
import { billingEndpoints } from './billing.ts'
import { budgetEndpoints } from './budget.ts'
import { autoTopUpEndpoints } from './auto-top-up.ts'
import { paymentEndpoints } from './payment.ts'
import { payoutEndpoints } from './payout.ts'
import { clusterEndpoints } from './cluster.ts'
import { costEndpoints } from './cost.ts'
import { deviceLoginEndpoints } from './device-login.ts'
import { endpoint, type AnswerKind } from './endpoint.ts'
import { eventEndpoints } from './event.ts'
import { factorEndpoints } from './factor.ts'
import { fileEndpoints } from './file.ts'
import { groupEndpoints } from './group.ts'
import { hostEndpoints } from './host.ts'
import { invitationEndpoints } from './invitation.ts'
import { inferenceEndpoints } from './inference.ts'
import { economicsEndpoints } from './economics.ts'
import { catalogEndpoints } from './catalog.ts'
import { jobEndpoints } from './job.ts'
import { jobScheduleEndpoints } from './job-schedule.ts'
import { managedDeploymentEndpoints } from './managed-deployment.ts'
import { marketplaceEndpoints } from './marketplace.ts'
import { marketplaceSearchEndpoints } from './marketplace-search.ts'
import { mediaEndpoints } from './media.ts'
import { messageEndpoints } from './message.ts'
import { messageBatchEndpoints } from './message-batch.ts'
import { rerankEndpoints } from './rerank.ts'
import { modelEndpoints } from './model.ts'
import { personEndpoints } from './person.ts'
import { portEndpoints } from './port.ts'
import { notificationEndpoints } from './notification.ts'
import { operatorMonitorEndpoints } from './operator-monitor.ts'
import { operatorPersonEndpoints } from './operator-person.ts'
import { ssoEndpoints } from './sso.ts'
import { operatorVolumeEndpoints } from './operator-volume.ts'
import { oauthEndpoints } from './oauth.ts'
import { operatorEndpoints } from './operator.ts'
import { providerBillEndpoints } from './provider-bill.ts'
import { providerEndpoints } from './provider.ts'
import { requestLogEndpoints } from './request-log.ts'
import { responseEndpoints } from './response.ts'
import { rentalMetricsEndpoints } from './rental-metrics.ts'
import { rentalPowerEndpoints } from './rental-power.ts'
import { rentalSessionEndpoints } from './rental-session.ts'
import { rentalOptionEndpoints } from './rental-option.ts'
import { onDemandRentalEndpoints } from './on-demand-rental.ts'
import { rentalEndpoints } from './rental.ts'
import { rentalVolumeEndpoints } from './rental-volume.ts'
import { secretEndpoints } from './secret.ts'
import { supplyEndpoints } from './supply.ts'
import { templateEndpoints } from './template.ts'
import { termsEndpoints } from './terms.ts'
import { transcriptionEndpoints } from './transcription.ts'
import { volumeEndpoints } from './volume.ts'

export const api = {
  getOpenApi: endpoint({
    method: 'GET',
    path: '/v2/openapi.json',
    family: 'v2',
    tag: 'Description',
    access: 'any-key',
    summary: 'Get this OpenAPI description',
    errors: [400, 401, 403, 404, 500],
    response: z.record(z.string(), z.unknown()),
  }),
  ...rentalEndpoints,
  ...onDemandRentalEndpoints,
  ...rentalOptionEndpoints,
  ...rentalPowerEndpoints,
  ...rentalSessionEndpoints,
  ...groupEndpoints,
  ...portEndpoints,
  ...rentalMetricsEndpoints,
  ...volumeEndpoints,
  ...rentalVolumeEndpoints,
  ...billingEndpoints,
  ...costEndpoints,
  ...budgetEndpoints,
  ...paymentEndpoints,
  ...autoTopUpEndpoints,
  ...payoutEndpoints,
  ...requestLogEndpoints,
  ...marketplaceEndpoints,
  ...marketplaceSearchEndpoints,
  ...inferenceEndpoints,
  ...messageEndpoints,
  ...messageBatchEndpoints,
  ...responseEndpoints,
  ...mediaEndpoints,
  ...rerankEndpoints,
  ...transcriptionEndpoints,
  ...fileEndpoints,
  ...batchEndpoints,
  ...jobEndpoints,
  ...jobScheduleEndpoints,
  ...managedDeploymentEndpoints,
  ...catalogEndpoints,
  ...economicsEndpoints,
  ...accountEndpoints,
  ...personEndpoints,
  ...factorEndpoints,
  ...termsEndpoints,
  ...deviceLoginEndpoints,
  ...oauthEndpoints,
  ...invitationEndpoints,
  ...operatorPersonEndpoints,
  ...ssoEndpoints,
  ...secretEndpoints,
  ...templateEndpoints,
  ...eventEndpoints,
  ...notificationEndpoints,
  ...supplyEndpoints,
  ...operatorEndpoints,
  ...operatorMonitorEndpoints,
  ...accountRecoveryEndpoints,
  ...operatorVolumeEndpoints,
  ...modelEndpoints,
  ...hostEndpoints,
  ...clusterEndpoints,
  ...providerEndpoints,
  ...providerBillEndpoints,
}

export type Api = typeof api
export type OperationId = keyof Api

/** The operations with one of these kinds of responses. */
export type OperationsAnswering<Kind extends AnswerKind> = {
  [Op in OperationId]: Api[Op]['answers'] extends Kind ? Op : never
}[OperationId]
