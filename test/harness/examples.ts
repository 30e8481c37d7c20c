/**
 * A valid request for every operation, on resources that one account owns. The same examples with unknown ids show the
 * response for a missing resource. An operation without an example does not compile and fails the tests that iterate
 * over all operations.
 */
import { passForReal } from './simulated-machine.ts'
import type { OperationId } from '../../src/contract/api.ts'
import { usd } from '../../src/base/money.ts'
import { silentWav } from '../../src/base/sound/wav.ts'
import { exampleBodies, inferenceExamples } from '../../src/contract/openapi/example-body.ts'
import { makeSshKeyPair } from '../../src/base/ssh-key-pair.ts'
import { LIST_LAG_MS, succeed, type Journey } from './journey.ts'
import { makePersonal } from './people.ts'
import { saveResponse } from '../../src/app/response/response.ts'
import { pay, saveCard } from './payment-ledger.ts'
import { makePayoutRuns } from './payout-ledger.ts'
import { testSshKey, type Call } from './server.ts'
import { writeRequest } from './ended-request.ts'
import { noUnits } from '../../src/domain/inference.ts'

export interface Example {
  readonly params?: Readonly<Record<string, string | number>>
  readonly query?: Readonly<Record<string, string>>
  readonly body?: unknown
  /** It names a resource that the account owns and others must not find. */
  readonly owned?: true
}

/** Ids of the account's resources. Each destructive operation has its own. */
export interface Owned {
  readonly account: string
  readonly virtualMachine: number
  readonly virtualMachineToEnd: number
  readonly bareMetal: number
  readonly bareMetalToEnd: number
  readonly volume: number
  readonly volumeToDetach: number
  readonly volumeToDelete: number
  readonly volumeToClone: number
  readonly instance: string
  readonly instanceToEnd: string
  readonly rentalToEnd: string
  readonly group: string
  readonly groupToEnd: string
  readonly machine: string
  readonly member: string
  readonly memberToRemove: string
  readonly apiKeyToRotate: string
  readonly apiKeyToRevoke: string
  readonly sessionToEnd: string
  readonly identity: string
  readonly offerToAccept: string
  readonly offerToDecline: string
  readonly invitationToRevoke: string
  /** The secret of a device that waits, and the codes that three of them show. */
  readonly deviceCode: string
  readonly deviceToFind: string
  readonly deviceToApprove: string
  readonly deviceToDeny: string
  readonly deviceKeyToEnd: string
  readonly passkey: string
  readonly passkeyToRemove: string
  readonly sshKeyToDelete: string
  readonly secretToDelete: string
  readonly template: string
  readonly templateToDelete: string
  readonly job: string
  readonly jobToCancel: string
  readonly jobSchedule: string
  readonly jobScheduleToDelete: string
  readonly managedDeployment: string
  readonly managedDeploymentToDelete: string
  readonly registryCredentialToDelete: string
  readonly portTokenToRevoke: string
  readonly webhook: string
  readonly webhookToDelete: string
  readonly delivery: string
  readonly budget: string
  readonly payment: string
  readonly payoutRun: string
  readonly payoutDraft: string
  readonly card: string
  readonly budgetToDelete: string
  readonly request: string
  readonly file: string
  readonly fileToDelete: string
  readonly response: string
  readonly responseToDelete: string
  readonly batch: string
  readonly messageBatch: string
  readonly messageBatchToDelete: string
  readonly model: string
  readonly modelToDelete: string
  readonly deployment: string
  readonly deploymentToDelete: string
  readonly joinToken: string
  readonly joinTokenToRevoke: string
  readonly host: string
  readonly metalHost: string
  readonly baseImageToDelete: string
}

/** The date of the examples: a journey's clock starts in January 2026. */
const MONTH = '2026-01'
const NODE = { cluster_name: 'mock-sin', node_name: 'mock-sin-a100-01' }
/** Each kind has two or three machines. */
const [groupKept, groupEnded] = [
  { gpusPerNode: 4, gpuModel: 'a6000' },
  { gpusPerNode: 2, gpuModel: '3090' },
]
const LISTED_MACHINE = 'mock-iad-h100-01'
const MODEL_FILE = { source: 'file:/models/small.gguf', file: 'small.gguf', bytes: 7, sha256: '0a'.repeat(32) }
const HTTP_PORT = 8_888
/** Nothing listens here. */
const HOOK_URL = 'http://127.0.0.1:9/hook'
/** The document of an OAuth client, at a port where nothing listens. */
const CLOSED_DOCUMENT = 'https://127.0.0.1:9/client.json'
const UPSTREAM = 'http://127.0.0.1:9/v1'
const otherSshKey =
  'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICAhIiMkJSYnKCkqKywtLi8wMTIzNDU2Nzg5Ojs8PT4/ other@example.test'

/** A machine that has joined, identified by its key. */
const HOST_KEY = 'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8'
const metal = { ...exampleBodies.addHost, privateKey: makeSshKeyPair('test@example.test').privateKey }

const none = (): Example => ({})
const owned = (params: Example['params'], body?: unknown): Example => ({
  owned: true,
  ...(params === undefined ? {} : { params }),
  ...(body === undefined ? {} : { body }),
})
const withBody = (body: unknown) => (): Example => ({ body })
const inMonth = (): Example => ({ params: { month: MONTH } })
const page = (): Example => ({ query: { limit: '10' } })

const ofModels = Object.fromEntries(
  Object.entries(inferenceExamples).map(([operation, body]) => [operation, withBody(body)]),
) as { readonly [Op in keyof typeof inferenceExamples]: () => Example }

export const examples: { readonly [Op in OperationId]: (its: Owned) => Example } = {
  ...ofModels,
  getOpenApi: none,
  createBareMetalRental: (its) =>
    owned(undefined, { ...exampleBodies.createBareMetalRental, storageVolume: { isNew: false, id: its.volume } }),
  listBareMetalRentals: none,
  terminateBareMetalRental: (its) => owned(undefined, { rentalId: its.bareMetalToEnd }),
  createVirtualMachineRental: withBody(exampleBodies.createVirtualMachineRental),
  listVirtualMachineRentals: none,
  terminateVirtualMachineRental: (its) => owned(undefined, { rentalId: its.virtualMachineToEnd, reason: 'done' }),
  getOnDemandRental: (its) => owned({ id: its.virtualMachine }),
  getRental: (its) => owned({ id: its.virtualMachine }),
  createRental: withBody(exampleBodies.createRental),
  listRentals: () => ({ query: { q: 'a', kind: 'container', ended: 'include', limit: '10' } }),
  changeRental: (its) => owned({ id: its.virtualMachine }, exampleBodies.changeRental),
  terminateRental: (its) => ({ ...owned({ id: its.rentalToEnd }), query: { reason: 'done' } }),
  listGroups: () => ({ query: { ended: 'include', limit: '10' } }),
  getGroup: (its) => owned({ id: its.group }),
  createGroup: withBody({ ...exampleBodies.createGroup, gpuModel: undefined }),
  terminateGroup: (its) => owned({ id: its.groupToEnd }),
  listRentalOptions: none,
  listReserveOptions: none,
  quoteRental: () => ({
    query: {
      rentalType: 'virtual-machine',
      region: 'mock-region',
      gpuType: 'h100',
      networkType: 'ethernet',
      gpuCount: '1',
      termPeriodDays: '30',
    },
  }),
  requestReservation: withBody(exampleBodies.requestReservation),
  stopRental: (its) => owned({ id: its.instance }),
  startRental: (its) => owned({ id: its.virtualMachine }, exampleBodies.startRental),
  rebootRental: (its) => owned({ id: its.virtualMachine }),
  getRentalLogs: (its) => ({ ...owned({ id: its.virtualMachine }), query: { tail: '10', follow: 'true' } }),
  getRentalMetrics: (its) => owned({ id: its.virtualMachine }),
  openRentalPort: (its) => owned({ id: its.virtualMachine, port: HTTP_PORT }, exampleBodies.openRentalPort),
  listPortTokens: (its) => owned({ id: its.virtualMachine, port: HTTP_PORT }),
  createPortToken: (its) => owned({ id: its.virtualMachine, port: HTTP_PORT }, exampleBodies.createPortToken),
  revokePortToken: (its) => owned({ id: its.virtualMachine, port: HTTP_PORT, tokenId: its.portTokenToRevoke }),
  listRentalMetrics: (its) => ({ query: { ids: String(its.virtualMachine) } }),
  exportMetrics: none,
  listStorageOptions: none,
  createVolume: (its) => owned(undefined, { ...exampleBodies.createVolume, rentalIds: [its.bareMetal] }),
  listVolumes: none,
  attachVolume: (its) => owned(undefined, { storageVolumeId: its.volume, rentalIds: [its.bareMetal] }),
  detachVolume: (its) => owned(undefined, { storageVolumeId: its.volumeToDetach, rentalIds: [its.bareMetal] }),
  terminateVolume: (its) => owned(undefined, { storageVolumeId: its.volumeToDelete }),
  listRentalVolumes: (its) => owned({ id: its.bareMetal }),
  attachRentalVolume: (its) => owned({ id: its.bareMetal }, { storageVolumeId: its.volume, readOnly: false }),
  detachRentalVolume: (its) => owned({ id: its.bareMetal, storageVolumeId: its.volumeToDetach }),
  growVolume: (its) => owned({ id: its.volume }, { sizeInGb: 63_744 }),
  cloneVolume: (its) => owned({ id: its.volumeToClone }, exampleBodies.cloneVolume),
  getRequestCost: withBody(exampleBodies.getRequestCost),
  getUsageSummary: () => ({ query: { from: `${MONTH}-01`, to: `${MONTH}-31`, by: 'rental' } }),
  getCustomerBalance: none,
  getStatement: page,
  listInvoices: none,
  getInvoice: inMonth,
  getInvoicePage: inMonth,
  getCurrentBalance: none,
  getPurchaseHistory: none,
  getCosts: () => ({ query: { from: `${MONTH}-01`, to: `${MONTH}-31`, groupBy: 'resource', limit: '5' } }),
  getDailyStatement: () => ({ query: { from: `${MONTH}-01`, to: `${MONTH}-31`, limit: '10' } }),
  exportStatement: () => ({ query: { from: `${MONTH}-01`, to: `${MONTH}-31` } }),
  createTopUp: withBody(exampleBodies.createTopUp),
  listTopUps: none,
  getAutoTopUp: none,
  setAutoTopUp: withBody(exampleBodies.setAutoTopUp),
  turnOffAutoTopUp: none,
  listSavedCards: none,
  removeSavedCard: (its) => owned({ id: its.card }),
  openCardPortal: none,
  getTopUp: (its) => owned({ id: its.payment }),
  listBudgets: none,
  createBudget: withBody({ ...exampleBodies.createBudget, monthlyUsd: '900000' }),
  changeBudget: (its) => owned({ id: its.budget }, exampleBodies.changeBudget),
  deleteBudget: (its) => owned({ id: its.budgetToDelete }),
  listInferenceRequests: () => ({ query: { limit: '10', outcome: 'answered' } }),
  getInferenceRequest: (its) => owned({ id: its.request }),
  listMachines: () => ({ body: exampleBodies.listMachines, query: { limit: '10' } }),
  searchMachines: () => ({
    query: { gpu: 'h100', free: '1', price: '9', text: 'mock', sort: 'free', down: 'true', grouped: 'true' },
  }),
  countMachines: none,
  createInstance: withBody({ ...NODE, gpu_count: 1 }),
  listInstances: none,
  listInstancesByPost: none,
  listInstanceHistory: page,
  terminateInstance: (its) => owned(undefined, { id: its.instanceToEnd }),
  createCheapestInstance: withBody({ gpuModel: 'a100', gpuCount: 1 }),
  listModels: none,
  getModel: (its) => ({ params: { id: its.model } }),
  countMessageTokens: withBody(exampleBodies.countMessageTokens),
  countResponseTokens: withBody(exampleBodies.countResponseTokens),
  getResponse: (its) => ({ ...owned({ id: its.response }), query: { starting_after: '3' } }),
  listResponseInput: (its) => ({ ...owned({ id: its.response }), query: { limit: '10', order: 'asc' } }),
  deleteResponse: (its) => owned({ id: its.responseToDelete }),
  getMe: none,
  getPerson: none,
  listSessions: none,
  endSession: (its) => owned({ id: its.sessionToEnd }),
  endOtherSessions: none,
  createDeviceLogin: withBody(exampleBodies.createDeviceLogin),
  redeemDeviceLogin: (its) => ({ body: { device_code: its.deviceCode } }),
  findDeviceLogin: (its) => ({ body: { userCode: its.deviceToFind } }),
  approveDeviceLogin: (its) => ({
    body: { ...exampleBodies.approveDeviceLogin, userCode: its.deviceToApprove, accountId: its.account },
  }),
  findOauthClient: withBody({ ...exampleBodies.findOauthClient, clientId: CLOSED_DOCUMENT }),
  approveOauthClient: (its) => ({
    body: { ...exampleBodies.approveOauthClient, clientId: CLOSED_DOCUMENT, accountId: its.account },
  }),
  denyOauthClient: withBody({ ...exampleBodies.denyOauthClient, clientId: CLOSED_DOCUMENT }),
  denyDeviceLogin: (its) => ({ body: { userCode: its.deviceToDeny } }),
  listDeviceKeys: none,
  endDeviceKey: (its) => owned({ id: its.deviceKeyToEnd }),
  logOutDevice: withBody(exampleBodies.logOutDevice),
  getTerms: none,
  acceptTerms: withBody(exampleBodies.acceptTerms),
  publishTerms: withBody(exampleBodies.publishTerms),
  listFactors: none,
  renamePasskey: (its) => owned({ id: its.passkey }, exampleBodies.renamePasskey),
  removePasskey: (its) => owned({ id: its.passkeyToRemove }),
  createRecoveryCodes: none,
  resetFactors: (its) => ({ params: { id: its.member }, body: exampleBodies.resetFactors }),
  switchAccount: (its) => ({ body: { accountId: its.account } }),
  acceptOffer: (its) => owned({ id: its.offerToAccept }),
  declineOffer: (its) => owned({ id: its.offerToDecline }),
  listInvitations: none,
  createInvitation: withBody(exampleBodies.createInvitation),
  revokeInvitation: (its) => owned({ id: its.invitationToRevoke }),
  listSignUpInvitations: none,
  createSignUpInvitation: withBody(exampleBodies.createSignUpInvitation),
  listPeople: () => ({ query: { q: 'a', limit: '10' } }),
  listSsoProviders: none,
  addSsoProvider: withBody(exampleBodies.addSsoProvider),
  changeSsoProvider: () => ({ params: { id: 'none' }, body: exampleBodies.changeSsoProvider }),
  testSsoProvider: () => ({ params: { id: 'none' } }),
  removeSsoProvider: () => ({ params: { id: 'none' } }),
  getAccountSso: none,
  setAccountSso: withBody({ ...exampleBodies.setAccountSso, issuer: 'https://192.0.2.1/realms/example' }),
  testAccountSso: none,
  requireAccountSso: withBody({ providerId: null }),
  removeAccountSso: none,
  listIdentities: none,
  removeIdentity: (its) => owned({ id: its.identity }),
  changePerson: () => ({ params: { id: 'usr_none' }, body: exampleBodies.changePerson }),
  listMails: () => ({ query: { q: 'a', state: 'sent', limit: '10' } }),
  revokeSignUpInvitation: () => ({ params: { id: 'inv_none' } }),
  changeAccountSettings: withBody(exampleBodies.changeAccountSettings),
  listMembers: none,
  addMember: withBody(exampleBodies.addMember),
  changeMember: (its) => owned({ id: its.member }, exampleBodies.changeMember),
  removeMember: (its) => owned({ id: its.memberToRemove }),
  listApiKeys: none,
  createApiKey: withBody({ ...exampleBodies.createApiKey, scopes: ['keys'] }),
  rotateApiKey: (its) => owned({ id: its.apiKeyToRotate }, exampleBodies.rotateApiKey),
  revokeApiKey: (its) => owned({ id: its.apiKeyToRevoke }),
  listSshKeys: none,
  addSshKey: withBody({ name: 'laptop', publicKey: otherSshKey }),
  deleteSshKey: (its) => owned({ id: its.sshKeyToDelete }),
  listSecrets: none,
  setSecret: () => ({ params: { name: 'HF_TOKEN' }, body: exampleBodies.setSecret }),
  deleteSecret: (its) => owned({ name: its.secretToDelete }),
  createTranscription: () => ({ body: formOf(exampleBodies.createTranscription, silentWav(1)) }),
  uploadFile: () => ({ body: formOf(exampleBodies.uploadFile) }),
  listFiles: () => ({ query: { limit: '10', order: 'asc', purpose: 'batch' } }),
  getFile: (its) => owned({ id: its.file }),
  downloadFile: (its) => owned({ id: its.file }),
  deleteFile: (its) => owned({ id: its.fileToDelete }),
  createBatch: (its) => ({ body: { ...exampleBodies.createBatch, input_file_id: its.file } }),
  listBatches: () => ({ query: { limit: '10' } }),
  getBatch: (its) => owned({ id: its.batch }),
  cancelBatch: (its) => owned({ id: its.batch }),
  createMessageBatch: (its) => ({ body: messageBatchOf(its.model) }),
  listMessageBatches: () => ({ query: { limit: '10' } }),
  getMessageBatch: (its) => owned({ id: its.messageBatch }),
  getMessageBatchResults: (its) => owned({ id: its.messageBatch }),
  cancelMessageBatch: (its) => owned({ id: its.messageBatch }),
  deleteMessageBatch: (its) => owned({ id: its.messageBatchToDelete }),
  listManagedDeployments: none,
  listCatalog: none,
  listCatalogGpus: () => ({ query: { catalogModel: 'qwen3-8b' } }),
  getManagedDeployment: (its) => owned({ id: its.managedDeployment }),
  createManagedDeployment: withBody(exampleBodies.createManagedDeployment),
  quoteManagedDeployment: withBody(exampleBodies.quoteManagedDeployment),
  changeManagedDeployment: (its) => owned({ id: its.managedDeployment }, { replicas: { min: 0, max: 2 } }),
  rolloutManagedDeployment: (its) => owned({ id: its.managedDeployment }, exampleBodies.rolloutManagedDeployment),
  deleteManagedDeployment: (its) => owned({ id: its.managedDeploymentToDelete }),
  getDeploymentUsage: (its) => ({ ...owned({ id: its.managedDeployment }), query: { from: '2026-01-01' } }),
  getEconomics: () => ({ query: { from: '2026-01-01', utilizationPercent: '60' } }),
  createJob: withBody(exampleBodies.createJob),
  listJobs: page,
  getJob: (its) => owned({ id: its.job }),
  listJobTasks: (its) => owned({ id: its.job }),
  cancelJob: (its) => owned({ id: its.jobToCancel }),
  downloadJobOutput: (its) => owned({ id: its.job }),
  createJobSchedule: withBody(exampleBodies.createJobSchedule),
  listJobSchedules: none,
  changeJobSchedule: (its) => owned({ id: its.jobSchedule }, exampleBodies.changeJobSchedule),
  deleteJobSchedule: (its) => owned({ id: its.jobScheduleToDelete }),
  listTemplates: none,
  getTemplate: (its) => owned({ id: its.template }),
  createTemplate: withBody(exampleBodies.createTemplate),
  changeTemplate: (its) => owned({ id: its.template }, exampleBodies.changeTemplate),
  deleteTemplate: (its) => owned({ id: its.templateToDelete }),
  getRentalOrder: (its) => owned({ id: its.virtualMachine }),
  listRegistryCredentials: none,
  addRegistryCredential: withBody(exampleBodies.addRegistryCredential),
  deleteRegistryCredential: (its) => owned({ id: its.registryCredentialToDelete }),
  listEvents: () => ({ query: { limit: '10', type: 'rental.created' } }),
  followEvents: () => ({ query: { after: '0' } }),
  listAllEvents: (its) => ({ query: { limit: '10', type: 'rental.created', accountId: its.account } }),
  followAllEvents: () => ({ query: { after: '0' } }),
  listNotifications: () => ({ query: { limit: '10', unread: 'true' } }),
  readNotifications: withBody(exampleBodies.readNotifications),
  getNotificationChoices: none,
  changeNotificationChoices: withBody(exampleBodies.changeNotificationChoices),
  sendConfirmationMail: none,
  sendTestMail: withBody(exampleBodies.sendTestMail),
  getMailStatus: none,
  listWebhooks: none,
  createWebhook: withBody({ ...exampleBodies.createWebhook, url: HOOK_URL }),
  changeWebhook: (its) => owned({ id: its.webhook }, exampleBodies.changeWebhook),
  deleteWebhook: (its) => owned({ id: its.webhookToDelete }),
  rotateWebhookSecret: (its) => owned({ id: its.webhook }),
  testWebhook: (its) => owned({ id: its.webhook }),
  listWebhookDeliveries: (its) => ({ ...owned({ id: its.webhook }), query: { limit: '10' } }),
  redeliver: (its) => owned({ id: its.delivery }),
  listSupply: () => ({ query: { limit: '10', q: 'a', left: 'true', joinedAfter: '2026-01-01T00:00:00Z' } }),
  listSuppliedMachines: page,
  changeSuppliedMachine: (its) => owned({ id: its.machine }, exampleBodies.changeSuppliedMachine),
  getEarnings: () => ({ query: { days: '7' } }),
  listAccounts: page,
  createAccount: withBody(exampleBodies.createAccount),
  getAccount: (its) => owned({ id: its.account }),
  changeAccount: (its) => owned({ id: its.account }, exampleBodies.changeAccount),
  restoreOwner: (its) => owned({ id: its.account }, exampleBodies.restoreOwner),
  creditAccount: (its) => owned({ id: its.account }, exampleBodies.creditAccount),
  adjustAccount: (its) => owned({ id: its.account }, exampleBodies.adjustAccount),
  refundCharge: (its) =>
    owned({ id: its.account }, { ...exampleBodies.refundCharge, amountUsd: '0.01', rentalId: its.virtualMachine }),
  listPayments: none,
  comparePayments: none,
  refundPayment: (its) => owned({ id: its.payment }, exampleBodies.refundPayment),
  listPayouts: none,
  setPayoutBank: withBody(exampleBodies.setPayoutBank),
  openPayoutPage: withBody(exampleBodies.openPayoutPage),
  listPayoutRuns: none,
  draftPayoutRun: none,
  getPayoutRun: (its) => owned({ id: its.payoutRun }),
  approvePayoutRun: (its) => owned({ id: its.payoutDraft }),
  cancelPayoutRun: (its) => owned({ id: its.payoutDraft }),
  exportPayoutRun: (its) => owned({ id: its.payoutRun }, exampleBodies.exportPayoutRun),
  settlePayoutRun: (its) => owned({ id: its.payoutRun }, exampleBodies.settlePayoutRun),
  payOutSupplier: (its) => owned({ id: its.account }, { ...exampleBodies.payOutSupplier, amountUsd: '0.01' }),
  getPriceBook: none,
  changePriceBook: withBody(exampleBodies.changePriceBook),
  listFleet: page,
  changeMachine: () => ({ params: { id: LISTED_MACHINE }, body: exampleBodies.changeMachine }),
  listAllRentals: () => ({ query: { limit: '10', status: 'Running', stuck: 'false' } }),
  listAllVolumes: () => ({ query: { limit: '10', state: 'active', failing: 'false' } }),
  listAudit: page,
  getOperatorSummary: none,
  getRevenue: () => ({ query: { days: '7' } }),
  getTraffic: () => ({ query: { minutes: '5' } }),
  verifyLedger: none,
  resealSecrets: withBody(exampleBodies.resealSecrets),
  auditEngines: none,
  listOperatedModels: none,
  createModel: withBody({
    ...exampleBodies.createModel,
    name: 'owner/made:latest',
    engine: 'llama',
    files: [MODEL_FILE],
  }),
  changeModel: (its) => ({
    ...owned(undefined, { ...exampleBodies.changeModel, files: [MODEL_FILE] }),
    query: { name: its.model },
  }),
  deleteModel: (its) => ({ ...owned(undefined), query: { name: its.modelToDelete } }),
  createDeployment: (its) => owned(undefined, { ...exampleBodies.createDeployment, url: UPSTREAM, model: its.model }),
  changeDeployment: (its) => owned({ id: its.deployment }, exampleBodies.changeDeployment),
  deleteDeployment: (its) => owned({ id: its.deploymentToDelete }),
  joinHost: (its) => ({ body: joinOf(its.joinToken, 'kept-host') }),
  listJoinTokens: page,
  createJoinToken: withBody(exampleBodies.createJoinToken),
  revokeJoinToken: (its) => owned({ id: its.joinTokenToRevoke }),
  listSuppliedHosts: page,
  changeSuppliedHost: (its) => owned({ id: its.host }, exampleBodies.changeSuppliedHost),
  listHosts: () => ({ query: { limit: '10', state: 'ready', driver: 'host' } }),
  addHost: withBody({ ...metal, id: 'made-metal' }),
  changeHost: (its) => owned({ id: its.metalHost }, exampleBodies.changeHost),
  listBaseImages: none,
  addBaseImage: withBody({ ...exampleBodies.addBaseImage, name: 'made' }),
  deleteBaseImage: (its) => owned({ id: its.baseImageToDelete }),
  listProviders: none,
  // An account would be called from then on, and tests call nobody outside.
  addProvider: () => ({ body: { ...exampleBodies.addProvider, credentials: { token: 'unknown' } } }),
  tryProvider: () => ({ body: { ...exampleBodies.tryProvider, credentials: { token: 'unknown' } } }),
  changeProvider: () => ({ params: { name: 'main' }, body: exampleBodies.changeProvider }),
  rotateProvider: () => ({ params: { name: 'main' }, body: exampleBodies.rotateProvider }),
  checkProvider: () => ({ params: { name: 'main' } }),
  listProviderOffers: () => ({ params: { name: 'main' } }),
  listProviderResources: () => ({ params: { name: 'main' } }),
  removeProvider: () => ({ params: { name: 'main' } }),
  listMargins: none,
  compareProviderBill: () => ({ params: { name: 'main' }, body: exampleBodies.compareProviderBill }),
  importProviderBill: () => ({ params: { name: 'main' }, body: exampleBodies.importProviderBill }),
  listProviderBills: () => ({ params: { name: 'main' } }),
  getProviderBill: () => ({ params: { name: 'main', id: 'bil_none' } }),
  deleteProviderBill: () => ({ params: { name: 'main', id: 'bil_none' } }),
  listClusters: none,
  checkCluster: () => ({ params: { name: 'lab' }, body: exampleBodies.checkCluster }),
  explainPlacement: withBody(exampleBodies.explainPlacement),
}

/** A form whose field `file` has a name and some content. */
/** Its requests are for a model that the account can use. */
export function messageBatchOf(model: string, customId = 'one'): object {
  const [request] = exampleBodies.createMessageBatch.requests
  return { requests: [{ custom_id: customId, params: { ...request?.params, model } }] }
}

export function formOf(
  { file, ...fields }: { readonly file: string } & Readonly<Record<string, unknown>>,
  content: Buffer = Buffer.from('{}\n'),
): FormData {
  const form = new FormData()
  form.set('file', new Blob([Uint8Array.from(content)]), file)
  for (const [name, value] of Object.entries(fields)) form.set(name, String(value))
  return form
}

function joinOf(token: string, name: string) {
  return { ...exampleBodies.joinHost, token, name, publicKey: HOST_KEY }
}

/** Well-formed ids that belong to no account. */
export const absent: Owned = {
  account: 'acc_0000000000000000000000',
  virtualMachine: 2_000_000_001,
  virtualMachineToEnd: 2_000_000_001,
  bareMetal: 2_000_000_001,
  bareMetalToEnd: 2_000_000_001,
  volume: 2_000_000_001,
  volumeToDetach: 2_000_000_001,
  volumeToDelete: 2_000_000_001,
  volumeToClone: 2_000_000_001,
  instance: 'absent-absent-absent',
  instanceToEnd: 'absent-absent-absent',
  rentalToEnd: 'absent-absent-absent',
  group: 'grp_00000000000000000000',
  groupToEnd: 'grp_00000000000000000000',
  machine: 'absent-01',
  member: 'usr_0000000000000000000000',
  memberToRemove: 'usr_0000000000000000000000',
  apiKeyToRotate: '00000000000000',
  apiKeyToRevoke: '00000000000000',
  sessionToEnd: 'ses_absent',
  identity: 'idn_absent',
  offerToAccept: 'inv_absent',
  offerToDecline: 'inv_absent',
  invitationToRevoke: 'inv_absent',
  deviceCode: 'absent',
  deviceToFind: 'ZZZZ-ZZZZ',
  deviceToApprove: 'ZZZZ-ZZZZ',
  deviceToDeny: 'ZZZZ-ZZZZ',
  deviceKeyToEnd: '00000000000000',
  passkey: 'pky_absent',
  passkeyToRemove: 'pky_absent',
  sshKeyToDelete: 'ssh_0000000000000000000000',
  secretToDelete: 'absent',
  job: 'job_absent',
  jobToCancel: 'job_absent',
  jobSchedule: 'sched_absent',
  jobScheduleToDelete: 'sched_absent',
  template: 'tpl_absent',
  templateToDelete: 'tpl_absent',
  managedDeployment: 'srv_00000000000000000000',
  managedDeploymentToDelete: 'srv_00000000000000000000',
  registryCredentialToDelete: 'reg_0000000000000000000000',
  webhook: 'whk_0000000000000000000000',
  webhookToDelete: 'whk_0000000000000000000000',
  portTokenToRevoke: 'ptk_0000000000000000000000',
  delivery: 'dlv_00000000000000000000000000000000',
  budget: 'bud_0000000000000000000000',
  payment: 'pay_0000000000000000000000',
  payoutRun: 'prun_000000000000000000000',
  payoutDraft: 'prun_000000000000000000001',
  card: 'pm_000000000000000000000000',
  budgetToDelete: 'bud_0000000000000000000000',
  request: 'req_00000000000000000000000000000000',
  file: 'file_00000000000000000000',
  fileToDelete: 'file_00000000000000000000',
  response: 'resp_ffffffffffffffffffffffffffffffff',
  responseToDelete: 'resp_ffffffffffffffffffffffffffffffff',
  batch: 'batch_00000000000000000000',
  messageBatch: 'batch_00000000000000000000',
  messageBatchToDelete: 'batch_00000000000000000000',
  model: 'absent/model',
  modelToDelete: 'absent/model',
  deployment: 'dep_0000000000000000000000',
  deploymentToDelete: 'dep_0000000000000000000000',
  joinToken: 'bj_0000000000000000000000000000000000000000000000000',
  joinTokenToRevoke: 'jtk_0000000000000000000000',
  host: 'absent-host',
  metalHost: 'absent-metal',
  baseImageToDelete: 'absent',
}

async function paidPayment({ app, clock }: Journey, accountId: string): Promise<string> {
  await pay({ database: app.database, clock }, accountId, 'example', { amount: usd('10'), tax: usd('1.90') })
  return 'pay_example'
}

async function savedCard({ app, clock }: Journey, accountId: string): Promise<string> {
  await saveCard({ database: app.database, clock }, accountId)
  return `pm_${accountId}`
}

/** Creates all resources of the examples through the API and runs them until they have cost something. */
export async function makeOwned(journey: Journey, owner: { id: string; call: Call }): Promise<Owned> {
  await passForReal(journey.app)
  const { operator, demo: renter } = journey
  const make = (path: string, body?: unknown) => succeed(owner.call, 'POST', path, body)
  const rentals = '/v2/alpha/on-demand'
  const virtualMachine = async (): Promise<number> =>
    (
      await make(`${rentals}/virtual-machine-rentals`, {
        gpuCount: 1,
        region: 'mock-region',
        ports: [`${HTTP_PORT}/http`],
      })
    ).id
  const bareMetal = async (): Promise<number> =>
    (await make(`${rentals}/bare-metal-rentals`, { gpuCount: 8, networkType: 'infiniband' })).id
  const volume = async (rentalIds: number[]): Promise<number> => {
    const order = { region: 'us-central-1', label: 'kept', sizeInGb: 256, rentalIds }
    return (await make(`${rentals}/storage-volumes`, order)).storageVolumeId
  }
  const webhook = async (): Promise<string> => (await make('/v2/webhooks', { url: HOOK_URL })).id
  const member = async (email: string): Promise<string> => (await make('/v2/members', { email, role: 'member' })).id

  const file = async (): Promise<string> => (await make('/v1/files', formOf(exampleBodies.uploadFile))).id
  const batch = async (body: object): Promise<string> =>
    (await make('/v1/batches', { ...body, input_file_id: await file() })).id
  const messages = { ...exampleBodies.createBatch, endpoint: '/v1/messages' }
  const budget = async (name: string): Promise<string> =>
    (await make('/v2/budgets', { name, scope: 'label', scopeValue: name, monthlyUsd: '1000' })).id

  const machine = 'mock-sin-rtx3090-01'
  await succeed(operator, 'PATCH', `/v2/operator/machines/${machine}`, { supplierId: owner.id, reason: 'handed over' })
  await succeed(renter, 'POST', '/v1/marketplace/instances/create', {
    cluster_name: 'mock-sin',
    node_name: machine,
    gpu_count: 1,
  })
  const model = async (name: string): Promise<string> =>
    (
      await succeed(operator, 'POST', '/v2/operator/models', {
        name,
        kind: 'chat',
        engine: 'llama',
        files: [MODEL_FILE],
      })
    ).name
  const served = await model('owner/kept')
  const deployment = async (): Promise<string> =>
    (await succeed(operator, 'POST', '/v2/operator/deployments', { model: served, url: UPSTREAM })).id
  const joinToken = async (): Promise<{ id: string; token: string }> => make('/v2/supply/join-tokens', { uses: 5 })
  const { token } = await joinToken()
  const { hostId } = await succeed(journey.anonymous, 'POST', '/v2/agent/join', joinOf(token, 'kept-host'))
  const metalHost = await succeed(operator, 'POST', '/v2/operator/hosts', { ...metal, id: 'kept-metal' })
  const image = { ...exampleBodies.addBaseImage, isDefault: false, name: 'to-delete' }
  const metalRental = await bareMetal()
  const hook = await webhook()
  const keptMachine = await virtualMachine()
  const tokens = `/v2/rentals/${keptMachine}/ports/${HTTP_PORT}/tokens`
  const made: Owned = {
    account: owner.id,
    virtualMachine: keptMachine,
    virtualMachineToEnd: await virtualMachine(),
    bareMetal: metalRental,
    bareMetalToEnd: await bareMetal(),
    volume: await volume([]),
    volumeToDetach: await volume([metalRental]),
    volumeToDelete: await volume([]),
    volumeToClone: await volume([]),
    instance: (await make('/v1/marketplace/instances/create', { ...NODE, gpu_count: 1 })).instance_id,
    instanceToEnd: (await make('/v1/marketplace/instances/create', { ...NODE, gpu_count: 1 })).instance_id,
    rentalToEnd: (await make('/v2/rentals', { ...exampleBodies.createRental, gpuModel: '4090' })).name,
    group: (await make('/v2/groups', { nodes: 2, ...groupKept })).id,
    groupToEnd: (await make('/v2/groups', { nodes: 2, ...groupEnded })).id,
    machine,
    member: await member('kept@example.test'),
    memberToRemove: await member('removed@example.test'),
    ...(await makePersonal(journey, owner)),
    apiKeyToRotate: (await make('/v2/api-keys', { name: 'to rotate', scopes: ['keys'] })).publicId,
    apiKeyToRevoke: (await make('/v2/api-keys', { name: 'to revoke', scopes: ['keys'] })).publicId,
    sshKeyToDelete: (await make('/v2/ssh-keys', { name: 'to delete', publicKey: testSshKey })).id,
    template: (await make('/v2/templates', exampleBodies.createTemplate)).id,
    templateToDelete: (await make('/v2/templates', exampleBodies.createTemplate)).id,
    job: (await make('/v2/jobs', exampleBodies.createJob)).id,
    jobToCancel: (await make('/v2/jobs', exampleBodies.createJob)).id,
    jobSchedule: (await make('/v2/job-schedules', exampleBodies.createJobSchedule)).id,
    jobScheduleToDelete: (await make('/v2/job-schedules', exampleBodies.createJobSchedule)).id,
    managedDeployment: (await make('/v2/deployments', { ...exampleBodies.createManagedDeployment, name: 'kept' })).id,
    managedDeploymentToDelete: (
      await make('/v2/deployments', { ...exampleBodies.createManagedDeployment, name: 'gone' })
    ).id,
    secretToDelete: (await succeed(owner.call, 'PUT', '/v2/secrets/to-delete', { value: 'planted' })).name,
    registryCredentialToDelete: (
      await make('/v2/registry-credentials', { ...exampleBodies.addRegistryCredential, name: 'to delete' })
    ).id,
    portTokenToRevoke: (await make(tokens, { name: 'to revoke' })).id,
    webhook: hook,
    webhookToDelete: await webhook(),
    delivery: (await make(`/v2/webhooks/${hook}/test`)).id,
    budget: await budget('kept'),
    payment: await paidPayment(journey, owner.id),
    ...(await makePayoutRuns(journey, owner.id)),
    card: await savedCard(journey, owner.id),
    budgetToDelete: await budget('to delete'),
    request: await logRequest(journey, owner.id),
    file: await file(),
    fileToDelete: await file(),
    response: await storeResponse(journey, owner.id, 0),
    responseToDelete: await storeResponse(journey, owner.id, 1),
    batch: await batch(exampleBodies.createBatch),
    messageBatch: await batch(messages),
    messageBatchToDelete: await batch(messages),
    model: served,
    modelToDelete: await model('owner/to-delete'),
    deployment: await deployment(),
    deploymentToDelete: await deployment(),
    joinToken: token,
    joinTokenToRevoke: (await joinToken()).id,
    host: hostId,
    metalHost: metalHost.id,
    baseImageToDelete: (await succeed(operator, 'POST', '/v2/operator/base-images', image)).name,
  }
  await journey.pass()
  await journey.advance(LIST_LAG_MS)
  await journey.advance(10 * 60_000)
  return made
}

/** Like a gateway's record when no engine could answer. */
async function storeResponse({ app }: Journey, accountId: string, number: number): Promise<string> {
  const id = `resp_${String(number).padStart(32, '0')}`
  const text = JSON.stringify({
    id,
    object: 'response',
    created_at: 1_767_225_600,
    completed_at: 1_767_225_600,
    status: 'completed',
    error: null,
    incomplete_details: null,
    model: 'owner/kept',
    output: [],
    usage: null,
    previous_response_id: null,
    store: true,
  })
  const input = [{ role: 'user', content: 'planted' }]
  await saveResponse(app, accountId, { id, previousId: null, text, input, pieces: [] }, 30)
  return id
}

async function logRequest({ app, clock }: Journey, accountId: string): Promise<string> {
  const requestId = `req_${'7'.repeat(32)}`
  await writeRequest(app.database.db, {
    requestId,
    accountId,
    apiKeyId: '00000000000000',
    model: 'owner/kept',
    deployment: null,
    at: clock.now(),
    status: 503,
    outcome: 'failed',
    reason: 'no_deployment',
    units: noUnits,
    firstByteMs: null,
    totalMs: 3,
    traceId: '0'.repeat(32),
  })
  return requestId
}
