"""The only room that imports httpx: it speaks to API servers and implements the `ApiServer` and `Discoverer`
ports. It translates, and decides nothing: what to do about an error is not its business.
"""
