/**
 * What the catalog does not know about columns, for `scripts/tables.ts`, by `table.column`. Unions of checked text, null,
 * defaults and generated values come from the catalog, and bigint columns with `nano` in their names are NanoUsd.
 */

/** Modules of the types below, from src/. */
export const modules: Readonly<Record<string, readonly string[]>> = {
  'base/instant.ts': ['Instant'],
  'base/limits.ts': ['Quota'],
  'base/money.ts': ['NanoUsd'],
  'contract/agent.ts': ['HostFault', 'HostMetrics', 'HostOffer', 'Workload'],
  'contract/batch-state.ts': ['BatchFault', 'BatchPath'],
  'contract/endpoint.ts': ['Scope'],
  'contract/event-type.ts': ['EventType'],
  'contract/file-purpose.ts': ['FilePurpose'],
  'contract/job.ts': ['JobOutput', 'JobSpec'],
  'contract/managed-deployment.ts': ['DeploymentSettings', 'DeploymentSpec'],
  'contract/model.ts': ['ModelFile'],
  'contract/notification-kind.ts': ['NotificationKind'],
  'contract/provider-data.ts': ['ProviderData', 'ProviderId'],
  'contract/template.ts': ['TemplateBody'],
  'contract/workload.ts': ['IdleRule'],
  'domain/group.ts': ['GroupSpec'],
  'domain/host.ts': ['HostAddress'],
  'domain/machine.ts': ['MachineHardware'],
  'domain/rental.ts': ['RentalSpec'],
  'domain/scaling.ts': ['ScalingReason', 'ScalingState'],
  'domain/serving.ts': ['ReplicaEndpoint', 'ReplicaLoads', 'Told'],
}

/** Shapes of JSON columns. Each JSON column has one. */
export const json: Readonly<Record<string, string>> = {
  'account.quota': 'Partial<Quota>',
  'audit.detail': 'Record<string, unknown>',
  'batch.errors': 'BatchFault[]',
  'batch.metadata': 'Record<string, string>',
  'commitment.rates': 'Array<{ days: number; nanoPerHour: string }>',
  'deployment_version.spec': 'DeploymentSpec',
  'event.data': 'Record<string, unknown>',
  'gateway_load.replicas': 'ReplicaLoads',
  'host.address': 'HostAddress',
  'host.fault': 'HostFault',
  'host.metrics': 'HostMetrics',
  'host.notes': 'string[]',
  'host.offer': 'HostOffer',
  'job.spec': 'JobSpec',
  'job_schedule.plan': 'unknown',
  'job_attempt.output': 'JobOutput',
  'job_attempt.result': 'unknown',
  'machine.hardware': 'MachineHardware',
  'managed_deployment.scaling': 'ScalingState',
  'managed_deployment.settings': 'DeploymentSettings',
  'managed_deployment.told': 'Told',
  'model.files': 'ModelFile[]',
  'notification.data': 'Record<string, unknown>',
  'provider_account.regions': 'Record<string, string>',
  'rental.idle': 'IdleRule',
  'rental.provider_data': 'ProviderData',
  'rental.spec': 'RentalSpec',
  'rental_group.spec': 'GroupSpec',
  'rental.user_metadata': 'Readonly<Record<string, unknown>>',
  'replica.endpoint': 'ReplicaEndpoint',
  'template_version.body': 'TemplateBody',
  'workload.base_image': "NonNullable<Workload['baseImage']>",
  'workload.spec': 'RentalSpec',
  'workload_node.group_links': 'Array<{ rank: number; mbps: number }>',
}

/** Text columns of which the code knows more than their checks, or that it compares with other columns. */
export const text: Readonly<Record<string, string>> = {
  'api_key.scopes': 'Scope[]',
  'batch.endpoint': 'BatchPath',
  'event.notice': 'NotificationKind',
  'event.type': 'EventType',
  'file.purpose': 'FilePurpose',
  'machine.driver': 'ProviderId',
  'mail.kind': 'NotificationKind',
  'managed_deployment.scaling_why': 'ScalingReason',
  'notification.kind': 'NotificationKind',
  'notification_choice.kind': 'NotificationKind',
  'offer_outcome.driver': 'ProviderId',
  'operator_alert.kind': 'NotificationKind',
  'provider_account.driver': 'ProviderId',
  'rental.driver': 'ProviderId',
  'volume.driver': 'ProviderId',
  'webhook.event_types': 'EventType[]',
}

/** Columns that only triggers, functions and defaults write. */
export const readOnly: readonly string[] = [
  'ledger_day.*',
  'machine.disk_claimed_gb',
  'machine.gpus_free',
  'rental.nonce',
  'volume.nonce',
]

/** Columns that every insert must set, although PostgreSQL would accept one without them. */
export const required: readonly string[] = [
  'budget.scope_value',
  'gpu_price.enabled',
  'key_spend.spent_nano',
  'storage_price.enabled',
  'template.visibility',
]

/** Narrower types of what is inserted and updated, such as the first state and the later ones. */
export const writes: Readonly<Record<string, readonly [insert: string, update: string]>> = {
  'attachment.state': ["'attaching' | undefined", "'attached' | 'detaching'"],
  'mail.state': ["'pending' | 'withheld' | undefined", "'pending' | 'sent' | 'failed'"],
  'provider_account.health': ["'unknown' | undefined", "'healthy' | 'stale' | 'broken'"],
  'provider_bill.from_day': ['string | null', 'never'],
  'provider_bill.to_day': ['string | null', 'never'],
  'webhook_delivery.state': ["'pending' | undefined", "'pending' | 'delivered' | 'failed'"],
  'workload.spec': ['string | null', 'string | null'],
}
