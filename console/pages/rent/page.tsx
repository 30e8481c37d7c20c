/** All kinds of machines, by the GPU first. The selection is in the URL, so that it can be shared. */
import { getRouteApi } from '@tanstack/react-router'
import { useState } from 'react'
import type { RentalType } from '../../../src/contract/rental.ts'
import type { RentalKind } from '../../../src/domain/rental.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Button, ButtonLink } from '../../ui/button.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { Tabs } from '../../ui/tabs.tsx'
import { GpuCards } from '../marketplace/gpu-card.tsx'
import { RentForm } from './form.tsx'
import { LikeNotice } from './like-notice.tsx'
import { useLike, type Like } from './like.ts'
import { useOwnVolumes } from './mounts.tsx'
import { choose, selectionOf, type Choices, type Option, type Selection } from './option.ts'
import { ReservationDialog } from './reservation.tsx'
import { TemplateGallery, useTemplates } from './template.tsx'

const route = getRouteApi('/shell/rent')

const kinds: Readonly<Record<RentalKind, string>> = {
  container: 'Container',
  'virtual-machine': 'Virtual machine',
  'bare-metal': 'Bare metal',
}

export function RentPage() {
  const { kind = 'virtual-machine', template } = route.useSearch()
  const navigate = route.useNavigate()
  const [isAsking, setAsking] = useState(false)
  const mayRent = useMay('compute:write')
  return (
    <Page
      intro="We hold one hour’s price when you rent. You pay only while the machine runs."
      actions={
        <Button onClick={() => setAsking(true)} disabledReason={mayRent ? undefined : missingScope('compute:write')}>
          Request a large reservation
        </Button>
      }
    >
      <Tabs
        label="Kind of machine"
        tabs={kinds}
        chosen={kind}
        onChoose={(name) => void navigate({ search: { kind: name, template }, replace: true, resetScroll: false })}
      >
        {kind === 'container' ? <ContainerGpus template={template} /> : <OtherKind key={kind} kind={kind} />}
      </Tabs>
      {isAsking && <ReservationDialog onClose={() => setAsking(false)} />}
    </Page>
  )
}

/** Containers run on a part of a machine, which is chosen on the marketplace. */
function ContainerGpus({ template }: { template: string | undefined }) {
  const navigate = route.useNavigate()
  const counts = useCall('countMachines')
  const openMarketplace = (gpu: string | undefined): void =>
    void navigate({
      to: '/marketplace',
      search: { ...(gpu === undefined ? {} : { gpu }), ...(template === undefined ? {} : { template }) },
    })
  return (
    <Answer of={counts} skeleton={<Skeleton rows={8} />}>
      {(reply) =>
        reply.gpuModels.length === 0 ? (
          <Empty title="No GPUs for containers">Nobody offers machines on the marketplace right now.</Empty>
        ) : (
          <div className="flex flex-col gap-4">
            <p className="max-w-prose text-sm text-muted">
              A container has one or more GPUs of a machine, starts in seconds, and is the cheapest. Choose a GPU to see
              the machines that have it.
            </p>
            <GpuCards counts={reply} chosen={undefined} minVramGb={0} onChoose={openMarketplace} />
            <Button className="self-start" onClick={() => openMarketplace(undefined)}>
              All machines
            </Button>
          </div>
        )
      }
    </Answer>
  )
}

function OtherKind({ kind }: { kind: RentalType }) {
  const { kind: _kind, template: templateId, like: likeId, ...selection } = route.useSearch()
  const navigate = route.useNavigate()
  const options = useCall('listRentalOptions')
  const { templates, chosen: template, isLoading } = useTemplates(templateId)
  const choices = useChoices(options.data, kind, selection)
  // Keys are loaded before the form is shown, so that nothing moves.
  const mayRead = useMay('compute:read')
  const keys = useCall('listSshKeys', {}, { enabled: mayRead })
  const terms = useCall('listReserveOptions', {}, { enabled: mayRead })
  const volumes = useOwnVolumes()
  const { like: original, isLoading: isLikeLoading } = useLike(likeId)
  const like = original?.ordered.kind === kind ? original : undefined
  const change = (changed: Selection & { readonly template?: string | undefined; readonly like?: undefined }): void =>
    void navigate({ search: (before) => ({ ...before, ...changed }), replace: true, resetScroll: false })
  return (
    <Answer of={options} skeleton={<Skeleton rows={12} />}>
      {() => {
        if (keys.isLoading || terms.isLoading || volumes.isLoading || isLoading || isLikeLoading)
          return <Skeleton rows={12} />
        if (choices === undefined) return <NothingOffered kind={kind} />
        return (
          <div className="flex flex-col gap-4">
            {like !== undefined && (
              <LikeNotice like={like} onDiscard={() => change({ like: undefined })}>
                {isOther(like, choices) && 'The same machine is not available now: check the selection.'}
              </LikeNotice>
            )}
            {kind === 'virtual-machine' && (
              <TemplateGallery
                templates={templates}
                chosen={template?.id}
                onChoose={(id) => change({ template: id })}
              />
            )}
            <RentForm
              key={`${kind} ${like === undefined ? '' : likeId}`}
              kind={kind}
              like={like}
              choices={choices}
              template={kind === 'virtual-machine' ? template : undefined}
              onSelect={change}
            />
          </div>
        )
      }}
    </Answer>
  )
}

/** Keeps the last choice selected while it is offered, so that a refreshed offer does not change the order. */
function useChoices(
  options: readonly Option[] | undefined,
  kind: RentalType,
  selection: Selection,
): Choices | undefined {
  const search = JSON.stringify([kind, selection])
  const [lastChoice, setLastChoice] = useState<{ readonly search: string; readonly selection: Selection }>()
  const choices = choose(options ?? [], kind, lastChoice?.search === search ? lastChoice.selection : selection)
  const now = choices === undefined ? undefined : selectionOf(choices.chosen)
  const isNew = lastChoice?.search !== search || JSON.stringify(lastChoice.selection) !== JSON.stringify(now)
  if (now !== undefined && isNew) setLastChoice({ search, selection: now })
  return choices
}

/** Whether the selection differs from the rental whose settings were copied. */
function isOther({ ordered }: Like, { chosen: { option, gpuCount } }: Choices): boolean {
  return (
    option.region !== ordered.region ||
    option.gpuType !== ordered.gpuType ||
    option.connectionType !== ordered.networkType ||
    gpuCount !== ordered.gpuCount
  )
}

function NothingOffered({ kind }: { kind: RentalType }) {
  return (
    <Empty
      title={kind === 'bare-metal' ? 'No bare metal available' : 'No virtual machines available'}
      action={<ButtonLink to="/marketplace">Browse the marketplace</ButtonLink>}
    >
      The operator does not offer machines of this kind right now.
    </Empty>
  )
}
