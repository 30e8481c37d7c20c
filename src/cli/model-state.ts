/** States of models and deployments as coloured cells. */
import {
  deploymentState,
  modelState,
  progressLabel,
  type Deployment,
  type LocalState,
  type Model,
} from '../view/model.ts'
import { toneStyles, type Cell } from './screen.ts'

export function modelCell(model: Model): Cell {
  const { label, tone, detail } = modelState(model)
  return {
    text: label === 'downloading' && detail !== undefined ? `${label} ${detail}` : label,
    style: toneStyles[tone],
  }
}

export function deploymentCell(deployment: Deployment): Cell {
  const { label, tone } = deploymentState(deployment)
  return { text: label, style: toneStyles[tone] }
}

export function localLabel(local: LocalState): string {
  switch (local.state) {
    case 'pulling':
      return `downloading ${progressLabel(local)}`
    case 'loading':
      return 'starting'
    case 'ready':
      return 'ready'
    case 'failed':
      return `failed: ${local.message ?? 'no reason given'}`
  }
}
