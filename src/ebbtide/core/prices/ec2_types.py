"""Common types of EC2 with what pods can use on them and their list price on demand, in USD an hour.

Prices are those of us-east-1 on 2026-07-20, sizes those after the kubelet's own share, both as the Karpenter
project publishes them (aws/karpenter-provider-aws, commit 1d927085). Spot prices are not listed: they change.
"""

from __future__ import annotations

AS_OF = "2026-07-20"
SOURCE = "Ebbtide built-in list (us-east-1)"

TABLE = """
name            cpu_milli memory_mib pods  usd_per_hour
t3.medium           1930    3246   17  0.0416
t3.large            1930    6837   35  0.0832
t3.xlarge           3920   14162   58  0.1664
t3.2xlarge          7910   29317   58  0.3328
t4g.medium          1930    3187   17  0.0336
t4g.large           1930    6778   35  0.0672
t4g.xlarge          3920   14103   58  0.1344
t4g.2xlarge         7910   29258   58  0.2688
m7i.large           1930    6903   29  0.1008
m7i.xlarge          3920   14162   58  0.2016
m7i.2xlarge         7910   29317   58  0.4032
m7i.4xlarge        15890   57691  234  0.8064
m7i-flex.large      1930    6903   29  0.09576
m7i-flex.xlarge     3920   14162   58  0.19152
m7i-flex.2xlarge    7910   29317   58  0.38304
m7i-flex.4xlarge   15890   57691  234  0.76608
m7g.large           1930    6844   29  0.0816
m7g.xlarge          3920   14103   58  0.1632
m7g.2xlarge         7910   29258   58  0.3264
m7g.4xlarge        15890   57632  234  0.6528
m8g.large           1930    6844   29  0.08976
m8g.xlarge          3920   14103   58  0.17952
m8g.2xlarge         7910   29258   58  0.35904
m8g.4xlarge        15890   57632  234  0.71808
c7i.large           1930    3114   29  0.08925
c7i.xlarge          3920    6584   58  0.1785
c7i.2xlarge         7910   14162   58  0.357
c7i.4xlarge        15890   27381  234  0.714
c7g.large           1930    3055   29  0.0725
c7g.xlarge          3920    6525   58  0.145
c7g.2xlarge         7910   14103   58  0.29
c7g.4xlarge        15890   27322  234  0.58
c8g.large           1930    3055   29  0.07976
c8g.xlarge          3920    6525   58  0.15952
c8g.2xlarge         7910   14103   58  0.31904
c8g.4xlarge        15890   27322  234  0.63808
r7i.large           1930   14481   29  0.1323
r7i.xlarge          3920   29317   58  0.2646
r7i.2xlarge         7910   59627   58  0.5292
r7i.4xlarge        15890  118312  234  1.0584
r7g.large           1930   14422   29  0.1071
r7g.xlarge          3920   29258   58  0.2142
r7g.2xlarge         7910   59568   58  0.4284
r7g.4xlarge        15890  118253  234  0.8568
r8g.large           1930   14422   29  0.11782
r8g.xlarge          3920   29258   58  0.23564
r8g.2xlarge         7910   59568   58  0.47128
r8g.4xlarge        15890  118253  234  0.94256
"""
