/** What requests have cost: exact, and a moment after they have ended. */
import { sumUsd } from '../../../src/base/money.ts'
import { money } from '../../../src/view/money.ts'
import { useCosts } from '../../api/inference.ts'
import { SkeletonText } from '../../ui/skeleton.tsx'

export function RequestCost({ requestId }: { requestId: string }) {
  const [cost] = useCosts([requestId])
  // It was stopped before the server had named it: it may have been answered all the same.
  if (requestId === '') return <>cost not known</>
  if (cost?.data !== undefined && cost.data !== null) return <span title="What it has cost">{money(cost.data)}</span>
  if (cost?.isError === true) return <>cost not known; see Requests</>
  return (
    <>
      <span className="sr-only">cost not known yet</span>
      <SkeletonText className="w-16" />
    </>
  )
}

export function TotalCost({ requestIds }: { requestIds: readonly string[] }) {
  const costs = useCosts(requestIds.filter((id) => id !== ''))
  const known = costs.flatMap(({ data }) => (data === undefined || data === null ? [] : [data]))
  const isWhole = known.length === costs.length
  return (
    <>
      {money(sumUsd(known))}
      {isWhole ? '' : ' so far'}
    </>
  )
}
