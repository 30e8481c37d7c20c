/** Values to choose from, apart from the schemas: the console offers them without loading those. */

/** Regions in the order of the interface. */
export const virtualMachineRegions = [
  'us-central-1',
  'us-central-2',
  'eu-north-2',
  'eu-west-2',
  'eu-north-4',
  'eu-north-5',
  'us-east-1',
  'us-east-2',
  'ca-east-3',
  'eu-north-6',
  'eu-north-7',
  'eu-north-8',
  'ca-west-1',
  'ca-east-1',
  'us-central-3',
  'us-southeast-1',
  'me-central-1',
  'ca-east-2',
  'eu-west-1',
  'us-southeast-2',
  'jp-east-1',
  'mock-region',
] as const

export const bareMetalOnlyRegions = [
  'uk-central-3',
  'uk-southeast-3',
  'eu-southwest-3',
  'eu-southwest-3-1',
  'eu-west-3',
  'eu-west-4',
] as const

export const regions = [...virtualMachineRegions, ...bareMetalOnlyRegions, 'private-cloud'] as const

export const rentalTypes = ['virtual-machine', 'bare-metal'] as const

export const gpuTypes = ['h100', 'h200', 'b200'] as const
export const networkTypes = ['infiniband', 'ethernet'] as const
export const offerings = ['marketplace', 'virtual-machine', 'bare-metal'] as const

export const machineStatuses = [
  'node_ready',
  'node_draining',
  'node_cleaning',
  'node_quarantined',
  'node_lost',
] as const
/** The states that the server sets for a host. */
export const hostStates = ['ready', 'draining', 'cleaning', 'quarantined', 'left'] as const

/** The operations of inference requests in the log; those that answer chats are protocols for the same work. */
export const requestOperations = [
  'chat',
  'responses',
  'messages',
  'completion',
  'embedding',
  'rerank',
  'transcription',
  'speech',
  'image',
] as const
export type RequestOperation = (typeof requestOperations)[number]

export const requestOutcomes = ['answered', 'cut', 'broken', 'failed'] as const

export const marketplaceSorts = ['gpu', 'free', 'vram', 'cpu', 'ram', 'disk', 'region', 'price', 'supplier'] as const
export type MarketplaceSort = (typeof marketplaceSorts)[number]
