/** Tools that destroy. Each asks first. */
import { z } from 'zod'
import { formatUsdForPeople, usd } from '../../base/money.ts'
import { ok } from '../../contract/result.ts'
import { cleanText } from './machine-text.ts'
import { rentalName } from './read-tools.ts'
import { confirm, defineTool, destructive, type Tool } from './tool.ts'
import { rentalAction, showAction } from './tool-value.ts'

const terminate = defineTool({
  name: 'terminate',
  description: 'End a machine and delete its disk. Asks the user first.',
  input: z.strictObject({ rental: rentalName, confirm }),
  output: rentalAction,
  hints: destructive,
  operations: ['terminateRental'],
  question: async ({ operate }, { rental }) => {
    const current = await operate('getRental', { params: { id: rental } })
    if (!current.ok) return current
    const { name, label, gpuCount, gpuModel, costSoFarUsd, actions } = current.value
    // Ending an ended one destroys nothing.
    if (!actions.includes('terminate')) return ok(undefined)
    const called = label === null ? name : `${name} (${label})`
    const facts = `${gpuCount} x ${gpuModel}, cost so far ${formatUsdForPeople(usd(costSoFarUsd))}`
    return ok({ name, message: cleanText(`Terminate ${called}, ${facts}? Its disk is deleted.`) })
  },
  run: async ({ operate }, { rental }) => {
    const ended = await operate('terminateRental', { params: { id: rental }, query: { reason: 'by an agent' } })
    if (!ended.ok) return ended
    return ok({ value: showAction(ended.value), costUsd: ended.value.costSoFarUsd, subject: ended.value.name })
  },
})

const deleteDeployment = defineTool({
  name: 'delete_deployment',
  description: 'Delete a deployment; its model stops answering. Asks the user first.',
  input: z.strictObject({ deployment: z.string().min(1).max(100), confirm }),
  output: z.object({ deployment: z.string(), message: z.string() }),
  hints: destructive,
  operations: ['deleteManagedDeployment'],
  question: async ({ operate }, { deployment }) => {
    const current = await operate('getManagedDeployment', { params: { id: deployment } })
    if (!current.ok) return current
    const { model } = current.value
    return ok({ name: model, message: cleanText(`Delete the deployment of ${model}? It stops answering.`) })
  },
  run: async ({ operate }, { deployment }) => {
    const deleted = await operate('deleteManagedDeployment', { params: { id: deployment } })
    return deleted.ok ? ok({ value: { deployment, message: deleted.value.message }, subject: deployment }) : deleted
  },
})

export const destroyTools: readonly Tool[] = [terminate, deleteDeployment]
