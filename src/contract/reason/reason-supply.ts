/** Reasons about machines, hosts, suppliers and the price book. */
import { counted } from '../../base/counted.ts'
import { asGiven, conflict, forbidden, invalid, notFound, unauthenticated, unavailable } from './reason-entry.ts'

export const supplyReasons = {
  machine_not_found: notFound('Machine not found.'),
  machine_not_ready: invalid(
    ({ status }: { readonly status: string }) => `The machine is not ready (status: ${status}).`,
  ),
  gpu_out_of_range: invalid(({ gpus }: { readonly gpus: number }) => `The machine has only ${counted(gpus, 'GPU')}.`),
  price_book_managed: invalid(
    'The price of this machine is set in the price book.',
    'Only marketplace machines have their own price.',
  ),
  machine_not_interruptible: invalid(
    'This machine cannot have interruptible rentals: only containers that can be stopped with their disk kept can.',
  ),
  interruptible_price_too_high: invalid(
    'The price of interruptible rentals must be below the price of others.',
    'Change both prices together, or remove the price of interruptible rentals.',
  ),
  supplier_priced: invalid('The supplier of this machine sets its price.'),
  supplier_not_found: invalid('Supplier not found.'),
  not_a_supplier: forbidden('This account is not a supplier.', 'Ask the operator to set a platform fee for it.'),

  agent_not_built: unavailable(
    'This server does not provide the agent.',
    'The operator can build it with `npm run build`.',
  ),
  agent_version_not_found: notFound(
    'This server does not have that version of the agent for that platform.',
    'Run the install command again.',
  ),
  too_many_downloads: unavailable('Too many machines are downloading the agent.', 'Try again in a minute.'),
  not_a_host: unauthenticated(
    'This download is for hosts of this server.',
    'Check that the clock of the host is right and that it has joined this server.',
  ),
  download_not_found: notFound('This file is not available to this host.'),
  engine_image_unavailable: unavailable(
    ({ cause }: { readonly cause: string }) => `This server cannot build the engine image: ${cause}.`,
  ),
  no_object_store: invalid('The weights are in an object store, but none is configured.', 'Set BERTH_S3_URL.'),
  no_model_store: unavailable('This server has no model store.', 'Turn on BERTH_LOCAL_ENGINES.'),
  still_downloading: unavailable(
    ({ model }: { readonly model: string }) => `This server is still downloading the files of ${model}.`,
  ),
  weights_mismatch: conflict(
    ({ file, model }: { readonly file: string; readonly model: string }) =>
      `The file ${file} of the model ${model} on this server does not match the file listed in the weights.`,
  ),
  join_token_not_found: notFound('Join token not found.'),
  join_token_refused: forbidden('This join token is unknown, used up or expired.', 'Create a new join token.'),
  bad_public_key: invalid('This is not an Ed25519 public key.'),
  bare_metal_needs_ssh: invalid('Bare-metal machines cannot join with the agent.', 'The operator adds them over SSH.'),
  offer_not_sellable: invalid(asGiven),
  key_in_use: invalid('This key belongs to a machine in another account.'),
  offering_changed: invalid(
    ({ host, offering }: { readonly host: string; readonly offering: string }) =>
      `${host} is registered as ${offering}.`,
    'Join with the same offering, or remove the host first.',
  ),
  name_in_use: invalid(({ name }: { readonly name: string }) => `The name ${name} is already taken.`),

  host_not_found: notFound('Host not found.'),
  host_removed: conflict('The host has left.', 'It can join again.'),
  host_not_ready: conflict(({ state }: { readonly state: string }) => `The host is not ready (state: ${state}).`),
  host_not_quarantined: conflict(
    ({ state }: { readonly state: string }) => `The host is not quarantined (state: ${state}).`,
  ),
  host_has_tenants: conflict('The host still has tenants or their volumes.', 'Drain it and wait until they are gone.'),
  drained_by_operator: conflict('The operator drained this host.', 'Ask the operator to resume it.'),
  bad_inventory: invalid(asGiven),
  provider_not_supported: invalid(
    ({ provider }: { readonly provider: string }) => `This version of Berth has no driver for ${provider}.`,
    'List the clouds that can be added with `berth operator providers ls`.',
  ),
  provider_not_found: notFound(
    ({ name }: { readonly name: string }) => `There is no provider account named ${name}.`,
    'List provider accounts with `berth operator providers ls`.',
  ),
  provider_in_use: conflict(
    ({ name, rentals, volumes }: { readonly name: string; readonly rentals: number; readonly volumes: number }) =>
      `The provider account ${name} is in use. Rentals: ${rentals}. Volumes: ${volumes}.`,
    'Suspend it, and remove it when they have ended.',
  ),
  bill_not_found: notFound(
    ({ id }: { readonly id: string }) => `There is no imported bill ${id}.`,
    'List imported bills with `berth operator providers bills ls NAME`.',
  ),
  too_many_bills: conflict(
    ({ name, max }: { readonly name: string; readonly max: number }) =>
      `The provider account ${name} has ${max} imported bills, which is the maximum.`,
    'Delete old ones with `berth operator providers bills rm NAME ID`.',
  ),
  provider_unreachable: unavailable(
    ({ name, message }: { readonly name: string; readonly message: string }) =>
      `The provider account ${name} does not answer: ${message}.`,
    'Check its credentials, and the status page of the cloud.',
  ),
  missing_credential: invalid('This credential is required.', 'See the documentation of the cloud in docs/clouds.md.'),
  unknown_credential: invalid(
    'The cloud has no such credential.',
    'See the documentation of the cloud in docs/clouds.md.',
  ),
  bad_provider_url: invalid(asGiven),
  cluster_not_found: notFound(
    ({ name }: { readonly name: string }) => `There is no cluster named ${name}.`,
    'List clusters with `berth operator clusters ls`.',
  ),
  cluster_unreachable: unavailable(
    ({ name, message }: { readonly name: string; readonly message: string }) =>
      `Cluster ${name} does not answer: ${message}.`,
  ),
  base_image_not_found: notFound('Image not found.'),
  duplicate_row: invalid('This row appears twice.'),
} as const
