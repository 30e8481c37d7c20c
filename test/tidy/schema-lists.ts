/** Lists in the code that correspond to value lists of the schema (`check (status in (…))`). */
import { groupState, onNodeLoss } from '../../src/contract/group.ts'
import { memberRecord } from '../../src/contract/account.ts'
import { desired, fromAgent } from '../../src/contract/agent.ts'
import { batchStatuses, batchWaits } from '../../src/contract/batch-state.ts'
import { statementLine } from '../../src/contract/billing.ts'
import { budgetAction, budgetScope } from '../../src/contract/budget.ts'
import { costService } from '../../src/contract/cost.ts'
import { deliveryRecord } from '../../src/contract/event.ts'
import { afterInterruptions } from '../../src/contract/interruption.ts'
import { attemptOutcomes, jobStates } from '../../src/contract/job-state.ts'
import { keyClasses } from '../../src/contract/key-class.ts'
import { replicaState } from '../../src/contract/managed-deployment.ts'
import { deploymentProtocol, engineName, modelKind } from '../../src/contract/model.ts'
import { volumeState } from '../../src/contract/operator-volume.ts'
import { operatorEndpoints } from '../../src/contract/operator.ts'
import { term } from '../../src/contract/on-demand-rental.ts'
import { offReason } from '../../src/contract/auto-top-up.ts'
import { alertKinds, objectKinds, paymentRecord, paymentState, refundRecord } from '../../src/contract/payment.ts'
import { payoutRecord, runRecord } from '../../src/contract/payout.ts'
import { rentalState, rentalType } from '../../src/contract/rental.ts'
import { requestOutcome } from '../../src/contract/request-log.ts'
import { ethernetVariant, gpuFormFactor, gpuType, networkType, simulation } from '../../src/contract/shared.ts'
import { suppliedMachine } from '../../src/contract/supply.ts'
import { volumeMoves } from '../../src/domain/volume.ts'

const [, report] = fromAgent.options
const reportedStates = report.shape.workloads.element.shape.state.options
const listedRental = operatorEndpoints.listAllRentals.response.shape.rentals.element
/** Postings on statements, those that only move money within an account, and costs of the house. */
const postingKinds = [...statementLine.shape.kind.options, 'hold', 'release', 'cost', 'fee']

/** By `table.column`: the lists of the code that it must agree with. */
export const listsOfCode: Readonly<Record<string, ReadonlyArray<readonly string[]>>> = {
  'rental.after_interruption': [afterInterruptions],
  'member.role': [memberRecord.shape.role.options],
  'invitation.role': [memberRecord.shape.role.options],
  'api_key.class': [keyClasses],
  'batch.status': [batchStatuses],
  'batch.waits_for': [batchWaits],
  'job.state': [jobStates],
  'job_task.state': [jobStates],
  'job_attempt.outcome': [attemptOutcomes],
  'posting.kind': [postingKinds],
  'payment.kind': [paymentRecord.shape.kind.options],
  'payment.state': [paymentState.options],
  'payment_refund.state': [refundRecord.shape.state.options],
  'payment_alert.kind': [alertKinds],
  'payment_difference.kind': [objectKinds],
  'processor_transaction.kind': [[...objectKinds, 'fee', 'own']],
  'payout_account.kind': [payoutRecord.shape.kind.options],
  'payout.kind': [payoutRecord.shape.kind.options],
  'payout.state': [payoutRecord.shape.state.options],
  'payout_run.state': [runRecord.shape.state.options],
  'auto_top_up.off_reason': [offReason.options],
  'machine.offering': [suppliedMachine.shape.offering.options],
  'machine.gpu_type': [gpuType.options],
  'machine.gpu_form_factor': [gpuFormFactor.options],
  'machine.network_type': [networkType.options],
  'machine.ethernet_variant': [ethernetVariant.options],
  'machine.simulation': [simulation.options],
  'gpu_price.machine_type': [rentalType.options],
  'gpu_price.gpu_type': [gpuType.options],
  'gpu_price.network_type': [networkType.options],
  'rental.kind': [[...rentalType.options, 'container'], listedRental.shape.kind.options],
  'rental.gpu_type': [gpuType.options],
  'rental.network_type': [networkType.options],
  'rental_group.on_node_loss': [onNodeLoss.options],
  'rental_group.state': [groupState.options],
  'replica.state': [replicaState.options],
  'rental.status': [rentalState.options],
  'term.term_type': [term.options.map((option) => option.shape.termType.value)],
  'volume.state': [Object.keys(volumeMoves), volumeState.options],
  'ledger_day.service': [costService.options],
  'budget.scope': [budgetScope.options],
  'budget.action': [budgetAction.options],
  'webhook_delivery.state': [deliveryRecord.shape.state.options],
  'model.kind': [modelKind.options],
  'model.engine': [engineName.options],
  'deployment.protocol': [deploymentProtocol.options],
  'request.outcome': [requestOutcome.options],
  'host.state': [desired.shape.state.options],
  // A stopped workload is told to its host as one that runs with its power off: agents before that know no other word.
  'workload.want': [[...desired.shape.workloads.element.shape.want.options, 'stopped']],
  'workload_node.state': [reportedStates],
  'host_volume.want': [desired.shape.volumes.element.shape.want.options],
}

/** Values that only the store uses; the contract does not show them. */
export const listsOfStore = [
  'ledger_account.kind',
  'machine.status',
  'attachment.state',
  'workload_copy.want',
  'mail.state',
  'template.visibility',
  'host.driver',
  'workload.driver',
  'host_volume.driver',
  'base_image.arch',
  'provider_account.driver',
  'provider_account.health',
  'file.state',
  'api_key.kind',
  'console_session.method',
  'sign_in.purpose',
  'email_code.purpose',
  'identity_provider.kind',
  'invitation.outcome',
  'device_login.decision',
  'payment_dispute.state',
  'payout_run.export_format',
  'payout_run.currency',
]
