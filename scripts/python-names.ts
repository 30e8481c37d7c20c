/**
 * Names of the Python client. An operation's first word is its method and the others are its noun: `createBudget` is
 * `budgets.create`. The table has the operations for which that reads badly; new operations need no row.
 */
import type { OperationId } from '../src/contract/api.ts'
import type { Endpoint } from '../src/contract/endpoint.ts'

const places: Partial<Record<OperationId, string>> = {
  getOpenApi: 'server.openapi',
  requestReservation: 'reservations.request',
  quoteRental: 'rentals.quote',
  getRentalLogs: 'rentals.logs',
  getRentalOrder: 'rentals.order',
  getRentalMetrics: 'rentals.metrics',
  listRentalMetrics: 'rentals.list_metrics',
  exportMetrics: 'metrics.export',
  openRentalPort: 'rentals.open_port',
  getRequestCost: 'usage.request_cost',
  getUsageSummary: 'usage.summary',
  getCosts: 'usage.costs',
  getCustomerBalance: 'billing.balance',
  getStatement: 'billing.statement',
  getDailyStatement: 'billing.daily_statement',
  exportStatement: 'billing.export_statement',
  getCurrentBalance: 'billing.current_balance',
  getPurchaseHistory: 'billing.purchase_history',
  getInvoicePage: 'invoices.html',
  listMachines: 'marketplace.list_machines',
  searchMachines: 'marketplace.search',
  countMachines: 'marketplace.counts',
  listInstancesByPost: 'instances.list_by_post',
  listInstanceHistory: 'instances.history',
  createCheapestInstance: 'instances.create_cheapest',
  countMessageTokens: 'messages.count_tokens',
  getMessageBatchResults: 'message_batches.results',
  countResponseTokens: 'responses.count_tokens',
  listResponseInput: 'responses.input_items',
  generateImage: 'images.generate',
  generateImageBySecondPath: 'images.generate_by_second_path',
  generateAudio: 'audio.generate',
  createSpeech: 'audio.speech',
  createTranscription: 'audio.transcribe',
  rerank: 'reranking.rerank',
  rerankBySecondPath: 'reranking.rerank_by_second_path',
  rerankByThirdPath: 'reranking.rerank_by_third_path',
  listJobTasks: 'jobs.tasks',
  downloadJobOutput: 'jobs.output',
  listManagedDeployments: 'deployments.list',
  createManagedDeployment: 'deployments.create',
  getManagedDeployment: 'deployments.get',
  changeManagedDeployment: 'deployments.change',
  deleteManagedDeployment: 'deployments.delete',
  quoteManagedDeployment: 'deployments.quote',
  rolloutManagedDeployment: 'deployments.rollout',
  getDeploymentUsage: 'deployments.usage',
  listCatalog: 'catalog.list',
  listCatalogGpus: 'catalog.gpus',
  getMe: 'account.me',
  changeAccountSettings: 'account.change_settings',
  listAllEvents: 'operator.events.list',
  followAllEvents: 'operator.events.follow',
  rotateWebhookSecret: 'webhooks.rotate_secret',
  listWebhookDeliveries: 'webhooks.deliveries',
  redeliver: 'webhooks.redeliver',
  getNotificationChoices: 'notifications.choices',
  changeNotificationChoices: 'notifications.change_choices',
  sendConfirmationMail: 'notifications.send_confirmation_mail',
  sendTestMail: 'operator.mail.send_test',
  getMailStatus: 'operator.mail.status',
  listSupply: 'supply.list',
  getEarnings: 'supply.earnings',
  listSuppliedMachines: 'supply.machines.list',
  changeSuppliedMachine: 'supply.machines.change',
  listSuppliedHosts: 'supply.hosts.list',
  changeSuppliedHost: 'supply.hosts.change',
  joinHost: 'supply.join_host',
  refundCharge: 'operator.accounts.refund',
  payOutSupplier: 'operator.accounts.pay_out',
  restoreOwner: 'operator.accounts.restore_owner',
  getPriceBook: 'operator.price_book.get',
  changePriceBook: 'operator.price_book.change',
  listFleet: 'operator.machines.list',
  listAllRentals: 'operator.rentals.list',
  listAllVolumes: 'operator.volumes.list',
  listAudit: 'operator.audit.list',
  listOperatedModels: 'operator.models.list',
  getOperatorSummary: 'operator.summary',
  getRevenue: 'operator.revenue',
  getTraffic: 'operator.traffic',
  getEconomics: 'operator.economics',
  verifyLedger: 'operator.verify_ledger',
  resealSecrets: 'operator.reseal_secrets',
  auditEngines: 'operator.audit_engines',
  explainPlacement: 'operator.explain_placement',
  tryProvider: 'operator.providers.try_credentials',
  listProviderOffers: 'operator.providers.offers',
  listProviderResources: 'operator.providers.resources',
}

export interface Place {
  /** Nouns from the client on: `['operator', 'accounts']`. */
  readonly group: readonly string[]
  readonly method: string
}

export function placeOf(operation: string, { path }: Pick<Endpoint, 'path'>): Place {
  const words = (places[operation as OperationId] ?? placeByRule(operation, path)).split('.')
  return { group: words.slice(0, -1), method: pythonName(words.at(-1) ?? '') }
}

function placeByRule(operation: string, path: string): string {
  const [verb = '', ...noun] = snakeCase(operation).split('_')
  const owner = path.startsWith('/v2/operator/') ? 'operator.' : path.startsWith('/v2/supply/') ? 'supply.' : ''
  return noun.length === 0 ? `server.${verb}` : `${owner}${pluralOf(noun.join('_'))}.${verb}`
}

function pluralOf(noun: string): string {
  if (noun.endsWith('person')) return noun.replace(/person$/, 'people')
  if (noun.endsWith('people') || noun.endsWith('s')) return noun
  if (/(ch|sh|x)$/.test(noun)) return `${noun}es`
  if (/[^aeiou]y$/.test(noun)) return `${noun.slice(0, -1)}ies`
  return `${noun}s`
}

/** `maxCostPerHourUsd` is `max_cost_per_hour_usd`; `managedK8sClusterId` is `managed_k8s_cluster_id`. */
export function snakeCase(name: string): string {
  return name
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1_$2')
    .replaceAll(/[^A-Za-z0-9]+/g, '_')
    .toLowerCase()
}

export function pascalCase(name: string): string {
  return snakeCase(name)
    .split('_')
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('')
}

const keywords = new Set(
  (
    'False None True and as assert async await break class continue def del elif else except finally for from global ' +
    'if import in is lambda nonlocal not or pass raise return try while with yield'
  ).split(' '),
)

/** A name that a parameter, a method or a field can have. */
export function pythonName(name: string): string {
  const snake = snakeCase(name)
  return keywords.has(snake) || /^\d/.test(snake) ? `${snake}_` : snake
}

/** Names of pydantic's base class that a field must not take. */
const modelAttributes = new Set(['copy', 'json', 'dict', 'schema', 'construct', 'validate', 'model_config'])

export function fieldName(name: string): string {
  const python = pythonName(name)
  return modelAttributes.has(python) || python.startsWith('model_') ? `${python}_` : python
}
