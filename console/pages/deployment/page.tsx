/** One deployment: its status, replicas, usage and history, and the actions on it. */
import { getRouteApi } from '@tanstack/react-router'
import { localTime } from '../../../src/view/time.ts'
import {
  deploymentStatusLabels,
  recipeLabels,
  scalingReason,
  specGpus,
  type ManagedDeployment,
} from '../../../src/view/deployment.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import { number } from '../../../src/view/number.ts'
import { useCall } from '../../api/query.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { LabelBadge } from '../../list/column.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Button } from '../../ui/button.tsx'
import { Card, Code, Facts, Section, Stats } from '../../ui/card.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Page } from '../../ui/page.tsx'
import { Progress } from '../../ui/progress.tsx'
import { ChangeDialog } from './change.tsx'
import { DeleteDialog } from './delete.tsx'
import { History } from './history.tsx'
import { FailedReplicas, Replicas } from './replicas.tsx'
import { RolloutDialog } from './rollout.tsx'
import { Usage } from './usage.tsx'

const route = getRouteApi('/shell/deployments/$id')

/** Requests and phases of a start raise no events. */
const EVERY_MS = 3_000

export function DeploymentPage() {
  const { id } = route.useParams()
  const deployment = useCall('getManagedDeployment', { params: { id } }, { everyMs: EVERY_MS })
  if (deployment.data !== undefined) return <OneDeployment deployment={deployment.data} />
  return (
    <Page>
      <Answer of={deployment}>{() => null}</Answer>
    </Page>
  )
}

function OneDeployment({ deployment }: { deployment: ManagedDeployment }) {
  const { id, status, message } = deployment
  const dialog = useDialog()
  const may = useMay('compute:write')
  const disabledReason = !may
    ? missingScope('compute:write')
    : status === 'deleting'
      ? 'The deployment is being deleted'
      : undefined
  const ask = (Dialog: typeof ChangeDialog) => () =>
    dialog.open((close) => <Dialog deployment={deployment} onClose={close} />)
  return (
    <Page
      title={deployment.model}
      actions={
        <>
          <Button disabledReason={disabledReason} onClick={ask(ChangeDialog)}>
            Change scaling
          </Button>
          <Button disabledReason={disabledReason} onClick={ask(RolloutDialog)}>
            Roll out
          </Button>
          <Button disabledReason={disabledReason} onClick={ask(DeleteDialog)}>
            Delete
          </Button>
        </>
      }
    >
      {message !== null && <Message isBad={status === 'failed'} text={message} />}
      <Status deployment={deployment} />
      <Rollout deployment={deployment} />
      <Section title="Replicas">
        <Replicas deployment={deployment} />
      </Section>
      <FailedReplicas deployment={deployment} />
      <Usage deployment={deployment} />
      <div className="grid items-start gap-4 lg:grid-cols-2">
        <Settings deployment={deployment} />
        <History deploymentId={id} />
      </div>
      {dialog.shown}
    </Page>
  )
}

/** Shows what the deployment waits for, or why it failed. The first line is a sentence, the others are output. */
function Message({ isBad, text }: { isBad: boolean; text: string }) {
  const [first, ...output] = text.split('\n')
  return (
    <div
      role={isBad ? 'alert' : 'note'}
      className={`rounded-md border px-4 py-3 text-sm ${isBad ? 'border-bad bg-bad-soft' : 'border-warn bg-warn-soft'}`}
    >
      <p className="font-medium break-words">{first}</p>
      {output.length > 0 && (
        <pre className="mt-2 max-h-60 overflow-auto text-xs whitespace-pre-wrap break-all" tabIndex={0}>
          {output.join('\n')}
        </pre>
      )}
    </div>
  )
}

function Status({ deployment }: { deployment: ManagedDeployment }) {
  const { status, readyReplicas, desiredReplicas, scalingReason: why, outstandingRequests, settings } = deployment
  const { min, max } = settings.replicas
  const budget = settings.hourlyBudgetUsd
  return (
    <Stats
      stats={[
        ['Status', <LabelBadge key="status" of={deploymentStatusLabels[status]} />, `Scaling: ${scalingReason(why)}`],
        [
          'Replicas ready',
          `${readyReplicas} of ${desiredReplicas}`,
          min === max ? `Always ${min}` : `Scales from ${min} to ${max}`,
        ],
        ['Requests waiting or running', number(outstandingRequests), targetText(settings.scaling.targetOutstanding)],
        [
          'Cost now',
          hourlyPrice(deployment.costPerHourUsd),
          budget === null ? 'No hourly budget' : `Budget ${hourlyPrice(budget)}`,
        ],
      ]}
    />
  )
}

function Rollout({ deployment }: { deployment: ManagedDeployment }) {
  const { rollout, version, readyVersion, replicas, desiredReplicas } = deployment
  if (rollout === 'done') return null
  const ready = replicas.filter((one) => one.version === version && one.state === 'ready').length
  const old = readyVersion === null ? '' : ` Version ${readyVersion} serves meanwhile.`
  return (
    <Card title={`Rollout of version ${version}`}>
      <div className="flex flex-col gap-2 text-sm">
        <Progress label={`Replicas of version ${version}`} value={ready} max={Math.max(1, desiredReplicas)} />
        <p>
          {rollout === 'failed'
            ? `Stopped: version ${version} failed repeatedly.${old} Roll out again to retry.`
            : `${ready} of ${desiredReplicas} replicas ready.${old}`}
        </p>
      </div>
    </Card>
  )
}

function Settings({ deployment }: { deployment: ManagedDeployment }) {
  const { spec, settings, visibility, sharedWith } = deployment
  const { recipe } = spec
  return (
    <Card title="Settings">
      <Facts
        facts={[
          ['Model', <Code key="model" text={deployment.model} />],
          ['Used by', visibility === 'everyone' ? 'Everyone' : ['This account', ...sharedWith].join(', ')],
          ['Engine', recipeLabels[recipe.name]],
          ['From hub', recipe.hubModel ?? null],
          [
            'Image',
            recipe.image === undefined ? null : [recipe.image.name, recipe.image.tag].filter(Boolean).join(':'),
          ],
          ['GPUs', specGpus(spec)],
          [
            'Price cap',
            spec.gpus.maxUsdPerGpuHour === undefined ? null : `$${spec.gpus.maxUsdPerGpuHour} per GPU-hour`,
          ],
          ['Adds replicas after', `${settings.scaling.upDelaySeconds} s of more load`],
          ['Removes replicas after', `${settings.scaling.downDelaySeconds} s of less load`],
          [
            'Scales to zero after',
            settings.replicas.min > 0 ? null : `${settings.scaling.idleSeconds} s without requests`,
          ],
          ['Requests wait', `up to ${settings.queueSeconds} s`],
          ['Version', number(deployment.version)],
          ['Created', localTime(deployment.createdAt)],
        ]}
      />
    </Card>
  )
}

function targetText(target: number | null): string {
  return target === null ? 'Aims for 70 % of what a replica can run' : `Aims for ${number(target)} per replica`
}
