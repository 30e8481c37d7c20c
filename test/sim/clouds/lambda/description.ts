/**
 * The part of Lambda's API that Berth uses, described in our words after version 1.10.0 of the vendor's description.
 * Bodies are strict: a field that the vendor does not know is a mistake of ours.
 */
import { z } from 'zod'
import type { SimDescription } from '../server.ts'

const region = z.strictObject({ name: z.string(), description: z.string() })
const specs = z.strictObject({ vcpus: z.int(), memory_gib: z.int(), storage_gib: z.int(), gpus: z.int() })
const instanceType = z.strictObject({
  name: z.string(),
  description: z.string(),
  gpu_description: z.string(),
  price_cents_per_hour: z.int(),
  specs,
})
const availability = z.strictObject({
  available: z.boolean(),
  reason_code: z.string().optional(),
  reason_description: z.string().optional(),
})
const instance = z.strictObject({
  id: z.string(),
  name: z.string().max(64).optional(),
  ip: z.ipv4().optional(),
  private_ip: z.ipv4().optional(),
  status: z.enum(['booting', 'active', 'unhealthy', 'terminated', 'terminating', 'preempted', 'hibernated']),
  ssh_key_names: z.array(z.string()),
  file_system_names: z.array(z.string()),
  region,
  instance_type: instanceType,
  actions: z.strictObject({
    migrate: availability,
    rebuild: availability,
    restart: availability,
    cold_reboot: availability,
    terminate: availability,
  }),
})
const keyName = z.string().min(1).max(64)
const sshKey = z.strictObject({ id: z.string(), name: keyName, public_key: z.string().min(1).max(4096) })

const rule = z.strictObject({
  protocol: z.enum(['tcp', 'udp', 'icmp', 'all']),
  port_range: z.tuple([z.int().min(1).max(65_535), z.int().min(1).max(65_535)]).optional(),
  source_network: z.cidrv4(),
  description: z.string().max(128),
})
const ruleset = z.strictObject({
  id: z.string(),
  name: z.string().max(64),
  region,
  rules: z.array(rule),
  created: z.iso.datetime(),
  instance_ids: z.array(z.string()),
})

const data = <S extends z.ZodType>(shape: S) => z.strictObject({ data: shape })
const error = (...codes: string[]) =>
  z.strictObject({
    error: z.strictObject({ code: z.enum(codes), message: z.string(), suggestion: z.string().optional() }),
  })
const common = {
  401: error('global/invalid-api-key'),
  403: error('global/account-inactive', 'global/invalid-address', 'global/forbidden'),
}
const invalid = 'global/invalid-parameters'
const missing = 'global/object-does-not-exist'

export const lambdaDescription: SimDescription = {
  listInstanceTypes: {
    answers: {
      ...common,
      200: data(
        z.record(
          z.string(),
          z.strictObject({ instance_type: instanceType, regions_with_capacity_available: z.array(region) }),
        ),
      ),
    },
  },
  listInstances: { answers: { ...common, 200: data(z.array(instance)) } },
  getInstance: { answers: { ...common, 200: data(instance), 404: error(missing) } },
  launchInstance: {
    body: z.strictObject({
      region_name: z.string(),
      instance_type_name: z.string(),
      ssh_key_names: z.array(z.string()).length(1),
      name: z.string().max(64).optional(),
      user_data: z.string().max(1_000_000).optional(),
      firewall_rulesets: z
        .array(z.strictObject({ id: z.string() }))
        .max(1)
        .optional(),
    }),
    answers: {
      ...common,
      200: data(z.strictObject({ instance_ids: z.array(z.string()) })),
      400: error(
        invalid,
        missing,
        'global/quota-exceeded',
        'provider/quota-limit',
        'instance-operations/launch/insufficient-capacity',
      ),
      404: error(missing),
    },
  },
  terminateInstance: {
    body: z.strictObject({ instance_ids: z.array(z.string()).min(1) }),
    answers: {
      ...common,
      200: data(z.strictObject({ terminated_instances: z.array(instance) })),
      400: error(invalid),
      404: error(missing),
    },
  },
  listFirewallRulesets: { answers: { ...common, 200: data(z.array(ruleset)) } },
  createFirewallRuleset: {
    body: z.strictObject({ name: z.string().max(64), region: z.string(), rules: z.array(rule) }),
    answers: { ...common, 200: data(ruleset), 400: error(invalid, 'global/duplicate') },
  },
  deleteFirewallRuleset: {
    answers: {
      ...common,
      200: data(z.strictObject({})),
      400: error('firewall-rulesets/firewall-ruleset-in-use'),
      404: error(missing),
    },
  },
  listSSHKeys: { answers: { ...common, 200: data(z.array(sshKey)) } },
  addSSHKey: {
    body: z.strictObject({ name: keyName, public_key: z.string().min(1).max(4096).optional() }),
    answers: { ...common, 200: data(sshKey), 400: error(invalid, 'global/duplicate') },
  },
  deleteSSHKey: { answers: { ...common, 200: data(z.strictObject({})), 404: error('global/not-found', missing) } },
}
